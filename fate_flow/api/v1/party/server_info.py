"""Information about the server: versions, components, defaults, lines of its logs (client-api-v1, section 3.6)."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from flask import Blueprint, Response

import fate_flow
from fate_flow.api.http.arguments import (
    COMPONENT_NAME,
    JOB,
    MOST_PAGES,
    SEAT,
    read_component,
    read_job_id,
    read_party,
    read_text,
    read_whole,
    whole,
)
from fate_flow.api.http.declared import (
    ANYTHING,
    COUNT,
    FREE,
    NOTHING,
    TEXT,
    WHOLE,
    YES_NO,
    a_list,
    an_object,
    by_name,
    declared,
    described,
    one_of,
)
from fate_flow.api.http.services import Services
from fate_flow.api.v1.envelope import HttpError, arguments, ok, silent_json
from fate_flow.api.v1.party import instances
from fate_flow.api.v1.party.log_lines import (
    LEVELS,
    MOST_LINES,
    SCHEDULE,
    SCHEDULE_ERROR,
    count_lines,
    log_name,
    numbered,
)
from fate_flow.core.access.client_roles import AUDIT, OPERATE, READ, SUBMIT
from fate_flow.core.access.permission import without_case
from fate_flow.core.model.errors import BadRequest, OperationFailed
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.modules import KnowsProviders, ModuleInfo, find_module
from fate_flow.core.wire.v1.envelope import FATE_VERSION
from fate_flow.jobspec.fate_v1.job_parameters import flat_parameters
from fate_flow.jobspec.native.schema import schema_text
from fate_flow.jobspec.text.document import nearest
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.services.context.space import no_space
from fate_flow.services.use_cases.key_ends import key_warnings
from fate_flow.settings.reader import load_settings
from fate_flow.settings.settings import Settings

API_VERSION = "v1"
_UNUSED = ("FATEBoard", "EGGROLL", "CENTOS", "UBUNTU", "MAVEN", "JDK", "SPARK")

_JOB_LOGS = {"jobSchedule": SCHEDULE, "jobScheduleError": SCHEDULE_ERROR}
_PARTY_LOGS = {f"party{level.capitalize()}": log_name(level) for level in LEVELS}
_COMPONENT_LOGS = {f"component{level.capitalize()}": log_name(level) for level in LEVELS}

_PROVIDERS = by_name(by_name(an_object(
    {"path": TEXT, "class_path": FREE, "components": a_list(TEXT)},
    {
        "is_ready": described(YES_NO, "Of a provider with a Python of its own: whether its components can be used."),
        "why_not": described(TEXT, "What is missing, or what it waits for; empty if it is ready."),
    },
)))  # fmt: skip
_UNKNOWN = {404: "There is no such provider."}
_OF_WHAT = (
    {"properties": {"log_type": one_of(_JOB_LOGS)}},
    {"properties": {"log_type": one_of(_PARTY_LOGS), **SEAT}, "required": list(SEAT)},
    {"properties": {**SEAT, "component_name": COMPONENT_NAME}, "required": [*SEAT, "component_name"]},
)
_LOG = JOB | {"log_type": one_of((*_JOB_LOGS, *_PARTY_LOGS, *_COMPONENT_LOGS))}
_WHOSE = {
    **dict.fromkeys(SEAT, described(ANYTHING, "For the logs of a party.")),
    "component_name": described(ANYTHING, "For the logs of a component."),
}
_LINES = {"begin": whole("The first line.", default=1), "end": whole(f"The last line; {MOST_LINES} at most.")}
_SIZE = an_object({"size": COUNT})
_COMPONENTS = by_name(an_object({
    "alias": a_list(TEXT), "default_provider": TEXT, "support_provider": a_list(TEXT), "description": TEXT,
    "roles": a_list(TEXT),
}))  # fmt: skip


def blueprint(services: Services) -> Blueprint:
    routes = _ServerRoutes(services)
    server = Blueprint("server_info", __name__, url_prefix="/v1")
    views: dict[str, Callable[..., Response]] = {
        "/server/version/get": routes.versions,
        "/version/get": routes.versions,
        "/info/version": routes.versions,
        "/info/common": routes.common,
        "/server/info": routes.info,
        "/server/config/job/default": routes.job_defaults,
        "/server/reload": routes.reload,
        "/component/get": routes.components,
        "/component/describe": routes.component,
        "/provider/get": routes.providers,
        "/provider/<name>/get": routes.provider,
        "/log/cat": routes.log_lines,
        "/log/size": routes.log_size,
    }
    for path, view in views.items():
        server.add_url_rule(path, view_func=view, methods=["POST"])
    server.get("/schema/job.json")(routes.job_schema)
    return server


class _ServerRoutes:
    def __init__(self, services: Services) -> None:
        self._settings = services.settings
        self._defaults = services.context.defaults
        self._modules = services.context.modules
        self._context = services.context
        settings = services.settings
        self._own_keys = OwnKeys(settings.party_id, settings.keys_dir, settings.private_key, services.context.clock)

    # ------------------------------------------------------------------ versions

    @declared(
        "Show the versions of this server and of its API.", READ, takes={"module": described(TEXT, "Only this one.")},
        data=by_name(TEXT), also=_UNKNOWN,
    )
    def versions(self) -> Response:
        known = _versions()
        module = read_text(silent_json(), "module")
        if module and module not in known:
            raise HttpError(404, f"module: {shown(module)} is not one of {', '.join(known)}")
        return ok({module: known[module], "API": API_VERSION} if module else known)

    @declared(
        "Where and who this server is.", READ,
        data=an_object({"version": TEXT, "host": TEXT, "http_port": WHOLE, "grpc_port": NOTHING, "party_id": TEXT}),
    )
    def common(self) -> Response:
        return ok(instances.described(self._settings))

    @declared(
        "Show whether this server takes new jobs, uploads and messages, and how much of its disk is free.", READ,
        data=an_object({
            "party_id": TEXT, "takes_new": YES_NO, "why_not": TEXT, "free_disk": described(COUNT, "In bytes."),
            "least_free_disk": described(COUNT, "In bytes: with less than this free, nothing new is taken."),
            "disk_of_parties": described(by_name(COUNT), "In bytes: what jobs of each other party take."),
            "key_warnings": described(a_list(TEXT), "Keys of this party and of others that end within 30 days."),
        }),
    )  # fmt: skip
    def info(self) -> Response:
        space, why_not = self._context.disk(), no_space(self._context)
        return ok({
            "party_id": self._settings.party_id, "takes_new": not why_not, "why_not": why_not,
            "free_disk": space.free, "least_free_disk": space.least,
            "disk_of_parties": dict(self._context.disk_use()),
            "key_warnings": key_warnings(self._context, self._own_keys.last_list),
        })  # fmt: skip

    @declared("The parameters of jobs that say nothing else.", READ, data=FREE)
    def job_defaults(self) -> Response:
        return ok(flat_parameters(self._defaults))

    @declared(
        "Show whether the configuration file has changed since the server started.", READ,
        data=an_object({"job_default_config": FREE, "server_registry": an_object({})}),
    )
    def reload(self) -> Response:
        """Compare the file with the settings in effect: a server reads its configuration only when it starts.

        Raise BadSettings like a start."""
        settings = self._settings
        reloaded = load_settings(settings.conf_path)
        changed = [one.name for one in fields(Settings) if getattr(reloaded, one.name) != getattr(settings, one.name)]
        if changed:
            raise OperationFailed(
                f"{', '.join(changed)}: changed in {settings.conf_path} since the server started. The change takes "
                "effect after bin/service.sh restart (jobs and workers live on)"
            )
        return ok({"job_default_config": flat_parameters(self._defaults), "server_registry": {}})

    @declared("Show the JSON Schema of native job files.", READ, file="application/json", content=FREE)
    def job_schema(self) -> Response:
        """Return the schema, for editors and other tools."""
        return Response(schema_text(), mimetype="application/json")

    # ------------------------------------------------------------------ components

    @declared(
        "List the components of this server.", READ,
        data=an_object({"components": _COMPONENTS, "providers": _PROVIDERS}),
    )
    def components(self) -> Response:
        known = {
            one.name: {
                "alias": [module],
                "default_provider": one.provider.package,
                "support_provider": [one.provider.package],
                "description": one.description,
                "roles": one.roles,
            }
            for module, one in self._modules.items()
        }
        return ok({"components": known, "providers": _providers(self._modules)})

    @declared(
        "Show what a component takes and gives, as its provider describes it.", READ,
        needs={"component": described(TEXT, "As in a job file, such as Intersection or fate.psi.")},
        data=an_object({"component": FREE}, {"module": TEXT}), also={404: "There is no such component."},
    )
    def component(self) -> Response:
        name = read_text(arguments("component"), "component")
        modules = self._modules
        module = next((one for one in modules if without_case(one) == without_case(name)), None)
        if module is None or not isinstance(modules, KnowsProviders):
            _, why_not = find_module(modules, "", name)
            known = f"{nearest(name, modules)}; known: {', '.join(sorted(modules))}"
            raise HttpError(404, f"component: {why_not or f'{shown(name)} is not known here{known}'}")
        return ok({"module": module, **modules.document_of(module)})

    @declared(
        "List the providers of the components.", READ, takes={"provider_name": described(TEXT, "Only this one.")},
        data=_PROVIDERS, also=_UNKNOWN,
    )
    def providers(self) -> Response:
        return self.provider(read_text(silent_json(), "provider_name"))

    @declared("List the providers of the components.", READ, data=_PROVIDERS, also=_UNKNOWN, idle=("provider_name",))
    def provider(self, name: str) -> Response:
        known = _providers(self._modules)
        if not name:
            return ok(known)
        if name not in known:
            raise HttpError(404, f"provider_name: {shown(name)} is not one of {', '.join(known)}")
        return ok({name: known[name]})

    # ------------------------------------------------------------------ logs

    @declared(
        "Show lines of a log of a job, of one of its parties, or of a component there.", SUBMIT | OPERATE | AUDIT,
        needs=_LOG, takes=_WHOSE | _LINES, either=_OF_WHAT,
        data=a_list(an_object({"line_num": COUNT, "content": TEXT})),
    )
    def log_lines(self) -> Response:
        body = arguments("log_type", "job_id")
        begin, end = read_whole(body, "begin", 1, 0), read_whole(body, "end", MOST_PAGES, 0)
        return ok(list(numbered(_log_file(self._settings, body), begin, end)))

    @declared(
        "Show the number of lines of such a log.", SUBMIT | OPERATE | AUDIT,
        needs=_LOG, takes=_WHOSE, either=_OF_WHAT, data=_SIZE,
    )
    def log_size(self) -> Response:
        return ok({"size": count_lines(_log_file(self._settings, arguments("log_type", "job_id")))})


def _versions() -> dict[str, str]:
    """Return the versions as a FATE Flow 1.11 server names them, with our own values."""
    own = {"FATE": FATE_VERSION, "FATEFlow": FATE_VERSION, "PYTHON": platform.python_version(), "API": API_VERSION}
    return {**own, **dict.fromkeys(_UNUSED, ""), "SERVER": f"fate_flow {fate_flow.__version__}"}


def _providers(modules: Mapping[str, ModuleInfo]) -> dict[str, Any]:
    """Return the packages of the providers by name and version, as FATE's clients know providers."""
    found: dict[str, dict[str, Any]] = {}
    for state in modules.states() if isinstance(modules, KnowsProviders) else ():
        said = {"is_ready": state.is_ready, "why_not": state.why_not}
        found[state.name] = {state.version: {"path": state.path, "class_path": {}, "components": [], **said}}
    for module in sorted(modules):
        one = modules[module].provider
        versions = found.setdefault(one.package, {})
        versions.setdefault(one.version, {"path": one.path, "class_path": {}, "components": []})
        versions[one.version]["components"].append(module)
    return found


# ---------------------------------------------------------------------- lines of a job's logs


def _log_file(settings: Settings, body: dict[str, Any]) -> Path:
    """Return the log file that the request means; every part of its path is a checked name. Raise BadRequest."""
    kind = read_text(body, "log_type")
    folder = settings.log_dir / read_job_id(body)
    if kind in _JOB_LOGS:
        return folder / _JOB_LOGS[kind]
    if kind not in _PARTY_LOGS and kind not in _COMPONENT_LOGS:
        known = ", ".join((*_JOB_LOGS, *_PARTY_LOGS, *_COMPONENT_LOGS))
        raise BadRequest(f"log_type: {shown(kind)} is not one of {known}")
    party = read_party(body)
    folder = folder / party.role / party.party_id
    return folder / _PARTY_LOGS[kind] if kind in _PARTY_LOGS else folder / read_component(body) / _COMPONENT_LOGS[kind]
