"""A third provider: a Python of its own runs a script for each worker, which ends with a result file."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fate_flow.components.providers.builtin import BUILTIN_PROVIDER
from fate_flow.components.providers.command import COMMAND_PROVIDER
from fate_flow.components.providers.description import ComponentInfo, Parameter
from fate_flow.components.providers.provider import Launch, Start
from fate_flow.components.providers.table import ProviderTable
from fate_flow.core.model.artifact import FILE

SCRIPT = """
import json, os, sys
config = json.load(open(sys.argv[1]))
said = {"text": config["parameters"]["text"], "component": config["component"], "flavour": os.environ["FLAVOUR"],
        "outputs": sorted(config["output_artifacts"])}
print("hello")
result = {"status": {"code": 0}, "io_meta": {"outputs": {}}, "summary": said}
json.dump(result, open(sys.argv[2], "w"))
"""


@dataclass(frozen=True)
class TinyProvider:
    name: str = "tiny"
    package: str = "tiny_package"
    version: str = "3.1"
    path: str = "/opt/tiny"
    has_replicas: bool = False

    @property
    def components(self) -> tuple[ComponentInfo, ...]:
        return (SAY,)

    def program(self, parameters: Mapping[str, Any]) -> None:
        return None

    def python_module(self, component: ComponentInfo) -> str:
        return ""

    def start(self, component: ComponentInfo, launch: Launch) -> Start:
        return Start(
            way="exec",
            argv=(sys.executable, "-c", SCRIPT, str(launch.config), str(launch.result)),
            cwd=launch.folder,
            stdout=launch.folder / "out",
            stderr=launch.folder / "err",
            output_max_bytes=1_000,
            output_setting="tiny.output",
            env={"FLAVOUR": "mint"},
            outputs={"said": FILE},
        )

    def leaves_result(self, folder: Path) -> bool:
        return True


TINY_PROVIDER = TinyProvider()

SAY = ComponentInfo(
    provider=TINY_PROVIDER,
    module="Say",
    name="say",
    description="says a text",
    roles=frozenset({"guest", "host"}),
    parameter_group="SayParam",
    parameters={"text": Parameter("a text", lambda value: isinstance(value, str), required=True)},
    refuses_unknown=True,
)

THREE = ProviderTable(BUILTIN_PROVIDER, COMMAND_PROVIDER, TINY_PROVIDER)
