"""A third provider: a Python of its own runs a script for each worker, which ends with a result file.

`Say` says a text. `Fit` trains a model, the mean of a column, and predicts with it. `Halves` takes and makes several
tables.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fate_flow.components.providers import table
from fate_flow.components.providers.builtin import BUILTIN_PROVIDER
from fate_flow.components.providers.command import COMMAND_PROVIDER
from fate_flow.components.providers.description import ComponentInfo, Parameter
from fate_flow.components.providers.provider import Launch, Start
from fate_flow.components.providers.table import PROVIDERS, ProviderTable
from fate_flow.core.model.artifact import FILE, JSON_MODEL, MODEL, MODEL_DIRECTORY, ArtifactInfo

SCRIPT = """
import json, os, sys
config = json.load(open(sys.argv[1]))
said = {"text": config["parameters"]["text"], "component": config["component"], "flavour": os.environ["FLAVOUR"],
        "outputs": sorted(config["output_artifacts"])}
print("hello")
result = {"status": {"code": 0}, "io_meta": {"outputs": {}}, "summary": said}
json.dump(result, open(sys.argv[2], "w"))
"""

FIT = """
import json, os, sys
from pathlib import Path
from fate_flow.components.provider_process.models import pack_made, with_unpacked
from fate_flow.components.tables.table import Schema, Table, TableWriter
config, folder = json.load(open(sys.argv[1])), Path(sys.argv[1]).parent
inputs, outputs = with_unpacked(config["input_artifacts"], folder), config["output_artifacts"]
data, model = {}, {}
def path(one):
    return one["uri"].removeprefix("file://")
if config["stage"] == "train":
    with Table(inputs["train_data"]["uri"]) as table:
        values = [float(row[1]) for row in table]
    os.makedirs(os.path.dirname(path(outputs["output_model"])), exist_ok=True)
    json.dump({"mean": sum(values) / len(values)}, open(path(outputs["output_model"]), "w"))
    model["output_model"] = [{**outputs["output_model"], "metadata": {"trained_by": config["party_task_id"]}}]
else:
    mean = json.load(open(path(inputs["input_model"])))["mean"]
    uri = outputs["test_output_data"]["uri"]
    new = TableWriter(uri, Schema(("above",)), made_by=config["task_id"])
    with Table(inputs["test_data"]["uri"]) as table, new:
        new.add((row[0], str(float(row[1]) - mean)) for row in table)
        new.close()
    with Table(uri) as table:
        data["test_output_data"] = [{"uri": uri, "type_name": "table", "metadata": table.metadata()}]
summary = {"inputs": inputs, "outputs": sorted(outputs), "stage": config["stage"]}
result = {"status": {"code": 0}, "io_meta": {"outputs": {"data": data, "model": model}}, "summary": summary}
pack_made(result, config, folder)
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
        return (SAY, FIT_AND_PREDICT, HALVES)

    def program(self, parameters: Mapping[str, Any]) -> None:
        return None

    def python_module(self, component: ComponentInfo) -> str:
        return ""

    def start(self, component: ComponentInfo, launch: Launch) -> Start:
        return Start(
            way="exec",
            argv=(sys.executable, "-c", SCRIPT if component is SAY else FIT, str(launch.config), str(launch.result)),
            cwd=launch.folder,
            stdout=launch.folder / "out",
            stderr=launch.folder / "err",
            output_max_bytes=1_000,
            output_setting="tiny.output",
            env={"FLAVOUR": "mint"},
            outputs={"said": FILE} if component is SAY else component.outputs_at(launch.role, launch.stage),
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

_TRAIN, _PREDICT = frozenset({"train"}), frozenset({"predict"})
_WITH_DATA = frozenset({"guest", "host"})

FIT_AND_PREDICT = ComponentInfo(
    provider=TINY_PROVIDER,
    module="Fit",
    name="fit",
    description="trains a model for each party of its own, and predicts with it",
    roles=frozenset({"guest", "host", "arbiter"}),
    parameter_group="FitParam",
    parameters={},
    stages=_TRAIN | _PREDICT,
    inputs={
        "train_data": ArtifactInfo(stages=_TRAIN, roles=_WITH_DATA),
        "validate_data": ArtifactInfo(stages=_TRAIN, roles=_WITH_DATA, is_optional=True),
        "test_data": ArtifactInfo(stages=_PREDICT, roles=_WITH_DATA),
        "warm_start_model": ArtifactInfo(MODEL, (JSON_MODEL,), stages=_TRAIN, roles=_WITH_DATA, is_optional=True),
        "input_model": ArtifactInfo(MODEL, (JSON_MODEL,), stages=_PREDICT, roles=_WITH_DATA),
    },
    outputs={
        "train_output_data": ArtifactInfo(stages=_TRAIN, roles=frozenset({"guest"})),
        "test_output_data": ArtifactInfo(stages=_PREDICT, roles=_WITH_DATA),
        "output_model": ArtifactInfo(MODEL, (JSON_MODEL,), stages=_TRAIN, roles=_WITH_DATA),
    },
)
HALVES = ComponentInfo(
    provider=TINY_PROVIDER,
    module="Halves",
    name="halves",
    description="makes two tables of each",
    roles=_WITH_DATA,
    parameter_group="HalvesParam",
    parameters={},
    inputs={"input_datas": ArtifactInfo(is_multi=True)},
    outputs={
        "output_datas": ArtifactInfo(is_multi=True),
        "output_folder": ArtifactInfo(MODEL, (MODEL_DIRECTORY,)),
    },
)

THREE = ProviderTable(BUILTIN_PROVIDER, COMMAND_PROVIDER, TINY_PROVIDER)


def install() -> None:
    """Let the server that this process becomes have this provider, too."""
    table.OWN = (*table.OWN, TINY_PROVIDER)        # for the table that a server makes of its configuration
    ProviderTable.__init__(PROVIDERS, *table.OWN)
