"""Providers with a Python of their own: FATE's components, or any that speak the contract of FATE 2.

Their workers run `provider_process/execute.py` with that Python. A component that only names a table needs no worker of
theirs: our Reader finds the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fate_flow.components.providers.builtin import BUILTIN_PROVIDER, READER
from fate_flow.components.providers.described import DescribedComponents, description_file, warm_socket
from fate_flow.components.providers.description import ComponentInfo
from fate_flow.components.providers.provider import PACKAGE, Launch, Start, component_run
from fate_flow.core.model.artifact import DATAFRAME, TABLE
from fate_flow.core.model.modules import ProviderPlace, ProviderState

EXECUTE = PACKAGE / "components" / "provider_process" / "execute.py"


class ExternalProvider:
    """A provider that the configuration names."""

    has_replicas = False

    def __init__(self, place: ProviderPlace, folder: Path) -> None:
        """`folder`: with the files of what providers have said (`described.py`)."""
        self.place, self._folder = place, folder
        self.name = self.package = place.name
        self.version = place.version
        self.path = place.python
        self._described = DescribedComponents(description_file(folder, place), self)

    @property
    def components(self) -> tuple[ComponentInfo, ...]:
        return tuple(self.by_module().values())

    def by_module(self) -> Mapping[str, ComponentInfo]:
        """Return its components by their names in the table; none before they are described."""
        return self._described.now().components

    def document_of(self, module: str) -> Mapping[str, Any]:
        """Return the description of a component as the provider has written it. Raises KeyError."""
        return self._described.now().documents[module]

    @property
    def state(self) -> ProviderState:
        why_not = self._described.now().why_not
        return ProviderState(self.name, self.version, self.path, not why_not, why_not)

    def program(self, parameters: Mapping[str, Any]) -> None:  # noqa: ARG002  # the provider's own code runs
        return None

    def python_module(self, component: ComponentInfo) -> str:
        """Return the module of ours that does what the component does; empty: the provider's own code runs."""
        return BUILTIN_PROVIDER.python_module(READER) if component.reads_by_name else ""

    def start(self, component: ComponentInfo, launch: Launch) -> Start:
        outputs = component.outputs_at(launch.role, launch.stage)
        if component.reads_by_name:
            start = component_run(launch, outputs, self.python_module(component))
            table = {key: launch.parameters.get(key) for key in ("namespace", "name")}
            return replace(start, runs=READER.name, parameters={"table": table})
        name = f"task_executor_{launch.worker_id}"
        return Start(
            way="exec",
            argv=(
                self.place.python, "-I", str(EXECUTE), self.place.module, str(launch.config), str(launch.result),
                *((str(warm_socket(self._folder, self.place)),) if self.place.is_kept_warm else ()),
            ),
            cwd=launch.folder,
            stdout=launch.logs / f"{name}_std.log",
            stderr=launch.logs / f"{name}_err.log",
            output_max_bytes=launch.log_max_bytes,
            output_setting="log.file_max_bytes",
            outputs=outputs,
            converts={
                key: DATAFRAME if DATAFRAME in one.kinds else TABLE
                for key, one in component.inputs.items() if TABLE in one.kinds
            },
        )  # fmt: skip

    def leaves_result(self, folder: Path) -> bool:  # noqa: ARG002  # every one does
        return True
