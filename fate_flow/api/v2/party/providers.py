"""`/v2/provider/query`: the providers of components, in the rows of FATE Flow 2 (client-api-v2, section 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from flask import Blueprint, Response

from fate_flow.api.http.declared import FREE, TEXT, Arguments, a_list, declared
from fate_flow.api.http.services import Services
from fate_flow.api.v2.arguments import arguments
from fate_flow.api.v2.envelope import ok
from fate_flow.core.access.client_roles import READ
from fate_flow.core.model.modules import KnowsProviders, ModuleInfo

_LOCAL = "local"
"""The only device: components run in processes of this machine."""
_FILTERS: Arguments = dict.fromkeys(("name", "device", "version", "provider_name"), TEXT)


def blueprint(services: Services) -> Blueprint:
    context = services.context
    since = context.clock()         # when this process has read the configuration
    providers = Blueprint("v2_providers", __name__, url_prefix="/v2/provider")

    @providers.get("/query")
    @declared("List the providers of components, or those that have these values.", READ, takes=_FILTERS,
              data=a_list(FREE))
    def query() -> Response:
        wanted = arguments()
        return ok([
            {**row, "create_time": since, "update_time": since} for row in provider_rows(context.modules)
            if all(row[key] == value for key, value in wanted.items())
        ])  # fmt: skip

    return providers


def provider_rows(modules: Mapping[str, ModuleInfo]) -> Iterator[dict[str, Any]]:
    """Yield a row for each version of a provider that has components here, or is configured to have some."""
    found = {(one.provider.package, one.provider.version): one.provider.path for one in modules.values()}
    states = modules.states() if isinstance(modules, KnowsProviders) else ()
    found |= {(one.name, one.version): one.path for one in states}
    why_not = {(one.name, one.version): one.why_not for one in states if not one.is_ready}
    for (name, version), path in sorted(found.items()):
        problem = {"why_not": why_not[name, version]} if (name, version) in why_not else {}
        yield {
            "name": name, "version": version, "device": _LOCAL, "provider_name": f"{name}:{version}@{_LOCAL}",
            "metadata": {"path": path, "venv": "", **problem},
        }  # fmt: skip
