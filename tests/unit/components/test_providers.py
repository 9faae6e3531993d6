"""The table of providers: who describes a component, checks it at the submit, and says how its worker starts."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fate_flow.api.v1.rendering.task import TASK
from fate_flow.components.providers.program_order import ORDER, Order
from fate_flow.components.providers.table import PROVIDERS
from fate_flow.core.model.artifact import JSON_MODEL, TABLE, Artifact
from fate_flow.core.model.job import CommandKind, TaskKey, Worker
from fate_flow.core.model.program import ProgramRules, read_program
from fate_flow.core.model.program_scope import Program
from fate_flow.core.model.spec import JobParameters, Party
from fate_flow.core.model.status import WorkerStatus
from fate_flow.engines.local.engine import LocalEngine
from fate_flow.engines.local.worker import EXIT, LAUNCH, WorkerSpec
from fate_flow.server.engines.local_workers import LocalWorkers
from fate_flow.services.context.ports import LaunchOrder
from fate_flow.settings.settings import Settings
from fate_flow.store.views.views import Views
from tests.kit.api.client_world import World, make_world
from tests.kit.components.tiny_provider import SAY, THREE, TINY_PROVIDER
from tests.kit.jobspec.parsing import parse, problems
from tests.kit.modules import Module
from tests.kit.services.hand_server import HandServer
from tests.kit.services.party_commands import command, create, task_command
from tests.kit.store.sqlite_in_memory import sqlite_in_memory
from tests.kit.values import JOB_ID

KEY = TaskKey("2026010112000000000001234", "a", 0, Party("guest", "9999"))
DSL = {"components": {"a": {"module": "Say", "provider": "tiny_package@3.1"}}}


def conf(**parameters: Any) -> dict[str, Any]:
    return {
        "dsl_version": 2, "initiator": {"role": "guest", "party_id": 9999}, "role": {"guest": [9999]},
        "component_parameters": {"common": {"a": parameters}},
    }  # fmt: skip


def test_each_component_comes_from_the_provider_that_describes_it() -> None:
    for name, provider in THREE.by_name.items():
        assert provider.name == name
        assert all(one.provider is provider and THREE.of(one) is provider for one in provider.components)
    described = [one for provider in THREE.by_name.values() for one in provider.components]
    assert len({one.module for one in described}) == len({one.name for one in described}) == len(THREE.components)
    assert set(THREE.components) - set(PROVIDERS.components) == {"Say", "Fit", "Halves"}
    assert THREE.find("say") is SAY


# ---------------------------------------------------------------------- described and checked


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = make_world(tmp_path, modules=THREE.components)
    yield world
    world.store.close()


def test_clients_see_the_package_of_a_provider_with_its_components(world: World) -> None:
    providers = world.ask("provider/get", {})["data"]
    assert set(providers) == {"fate_flow", "tiny_package"}
    components = ["Fit", "Halves", "Say"]
    assert providers["tiny_package"] == {"3.1": {"path": "/opt/tiny", "class_path": {}, "components": components}}
    (ours,) = providers["fate_flow"].values()
    assert {"Command", "Upload"} < set(ours["components"])
    assert "Say" not in ours["components"]
    assert world.ask("component/get", {})["data"]["components"]["say"] == {
        "alias": ["Say"], "default_provider": "tiny_package", "support_provider": ["tiny_package"],
        "description": "says a text", "roles": ["guest", "host"],
    }  # fmt: skip


def test_a_submit_asks_the_description_of_the_provider(world: World) -> None:
    for parameters, problem in (
        ({}, "a at guest 9999: text is missing; a text is needed"),
        ({"text": "x", "txt": "y"}, "a at guest 9999: txt: is not known; did you mean text"),
    ):
        refused = world.ask("job/submit", {"job_dsl": DSL, "job_runtime_conf": conf(**parameters)})
        assert refused["retcode"] != 0
        assert problem in refused["retmsg"]
    assert world.ask("job/submit", {"job_dsl": DSL, "job_runtime_conf": conf(text="x")})["retcode"] == 0


def test_the_choice_of_an_offered_provider_needs_no_warning() -> None:
    described: dict[str, Any] = {"modules": THREE.components, "defaults": JobParameters()}
    assert parse(DSL, conf(text="x"), **described).warnings == ()
    (warning,) = parse({"components": {"a": {"module": "Say", "provider": "b"}}}, conf(text="x"), **described).warnings
    assert warning.endswith("has no effect: 'b' is not offered, fate_flow or tiny_package is used")
    assert problems(DSL, conf(), **described) == [
        "job_runtime_conf.component_parameters: a at guest 9999: text is missing; a text is needed"
    ]


def test_the_row_of_a_task_names_its_provider_once_its_share_has_started() -> None:
    store = sqlite_in_memory()
    host = HandServer("10000", store=store)
    host.context = replace(host.context, modules={"Work": Module(TINY_PROVIDER)})
    round_of = {"turn": 1}
    for one in (
        create(), command(CommandKind.STATUS, argument="waiting"), command(CommandKind.CHECK, **round_of),
        command(CommandKind.APPLY, **round_of), command(CommandKind.START), task_command(CommandKind.TASK_START),
    ):  # fmt: skip
        assert host.handle(one).is_ok, one
    rows = Views(store.database).tasks(TASK, {"job_id": JOB_ID})
    assert {row["component_name"]: row["provider_info"] for row in rows} == {
        "a": {"name": "tiny_package", "version": "3.1", "path": "/opt/tiny", "class_path": {}}, "b": {},
    }  # fmt: skip


# ---------------------------------------------------------------------- started


def workers_of(home: Path, launched: list[WorkerSpec]) -> LocalWorkers:
    rules = ProgramRules(enabled=True, allow=("/bin/echo",), output_max_bytes=77)
    settings = replace(Settings("9999", home), log_dir=home / "logs", commands=rules)
    engine = LocalEngine(None)
    recording: Any = SimpleNamespace(launch=lambda spec, _: launched.append(spec), observe=engine.observe)
    return LocalWorkers(settings, recording, "http://x", b"secret", lambda _: None, THREE)


def an_order(
    home: Path, module: str, parameters: dict[str, Any], inputs: tuple[Artifact, ...] = (), **fields: Any
) -> LaunchOrder:  # fmt: skip
    worker = Worker("w", KEY, WorkerStatus.CREATED, "local", str(home / "jobs" / "w"))
    return LaunchOrder(worker, module, "ab" * 16, (("guest", "9999"),), parameters, inputs, 1, 0, 1.0, "w", **fields)


def test_a_worker_gets_inputs_by_key_and_the_places_of_its_outputs_in_its_stage(tmp_path: Path) -> None:
    workers = workers_of(tmp_path, [])
    model = Artifact(JSON_MODEL, "file:///m", {"trained_by": "x"}, "input_model")
    table = Artifact(TABLE, "standalone:///t", {}, "test_data")
    workers.launch(an_order(tmp_path, "Fit", {}, (model, table), stage="predict"))
    config = json.loads((tmp_path / "jobs/w/config.yaml").read_text())
    assert config["stage"] == "predict"
    assert config["input_artifacts"] == {"input_model": model.as_json(), "test_data": table.as_json()}
    assert set(config["output_artifacts"]) == {"metric", "test_output_data"}


def test_several_artifacts_of_one_key_are_a_list_and_outputs_have_a_place_for_their_index(tmp_path: Path) -> None:
    table = Artifact(TABLE, "standalone:///t", {}, "input_datas")
    workers_of(tmp_path, []).launch(an_order(tmp_path, "Halves", {}, inputs=(table,)))
    config = json.loads((tmp_path / "jobs/w/config.yaml").read_text())
    assert config["input_artifacts"] == {"input_datas": [table.as_json()]}
    outputs = config["output_artifacts"]
    assert outputs["output_folder"] == {
        "uri": f"file://{tmp_path}/jobs/w/models/output_folder", "type_name": "model_directory",
    }  # fmt: skip
    assert re.fullmatch(r"standalone://.*_output_datas_\{index\}_abababab", outputs["output_datas"]["uri"])


def test_a_worker_of_a_third_provider_starts_as_that_says(tmp_path: Path) -> None:
    launched: list[WorkerSpec] = []
    workers_of(tmp_path, launched).launch(an_order(tmp_path, "Say", {"text": "x"}))
    [spec] = launched
    assert (spec.provider, spec.way, spec.env) == (TINY_PROVIDER.name, "exec", {"FLAVOUR": "mint"})
    assert spec.argv[-2:] == (str(tmp_path / "jobs/w/config.yaml"), str(tmp_path / "jobs/w/result.json"))
    assert (spec.stdout, spec.output_max_bytes, spec.output_setting) == (tmp_path / "jobs/w/out", 1_000, "tiny.output")
    config = json.loads((tmp_path / "jobs/w/config.yaml").read_text())
    assert (config["component"], config["parameters"]) == ("say", {"text": "x"})
    assert config["output_artifacts"]["said"] == {"uri": f"file://{tmp_path}/jobs/w/outputs/said", "type_name": "file"}


def test_a_program_of_a_user_is_wrapped(tmp_path: Path) -> None:
    command = read_program({"command": ["/bin/echo", "x"], "env": {"A": "b"}})
    program = Program(command, {"FATE_FLOW_ROLE": "guest"}, ({"role": "guest"},), "9999")
    launched: list[WorkerSpec] = []
    workers = workers_of(tmp_path, launched)
    order = an_order(tmp_path, "Command", {"command": ["/bin/echo", "x"]}, program=program)
    workers.launch(order)
    [spec] = launched
    folder = tmp_path / "jobs/w"
    assert (spec.provider, spec.way, spec.argv, spec.cwd) == ("command", "exec", ("/bin/echo", "x"), folder / "work")
    assert (spec.stdout, spec.output_max_bytes) == (folder / "stdout", 77)
    assert spec.output_setting == "commands.output_max_bytes"
    assert json.loads((folder / "peers.json").read_text()) == [{"role": "guest"}]
    assert stat.S_IMODE((folder / ORDER).stat().st_mode) == 0o600
    wrapped = Order.read(folder)
    assert wrapped is not None
    assert {"A": "b", "FATE_FLOW_ROLE": "guest", "FATE_FLOW_EXCHANGE_URL": "http://x"}.items() <= wrapped.env.items()
    assert (wrapped.argv, wrapped.policy.allow, wrapped.own) == (("/bin/echo", "x"), ("/bin/echo",), "9999")
    (folder / LAUNCH).write_text(spec.to_json())
    (folder / EXIT).write_text(json.dumps({"exit_code": 0, "signal": None, "cause": "exited"}))
    assert workers.observe(order.worker).succeeded, "the exit code decides, without a result file"


def test_the_collector_of_a_program_runs_code_of_ours_and_leaves_a_result(tmp_path: Path) -> None:
    outputs = [{"name": "rows", "path": "r.csv", "kind": "table"}, {"name": "notes", "path": "n.txt"}]
    launched: list[WorkerSpec] = []
    workers = workers_of(tmp_path, launched)
    order = an_order(tmp_path, "Command", {"command": ["/bin/echo"], "outputs": outputs})
    workers.launch(order)
    [spec] = launched
    assert (spec.provider, spec.way, spec.cwd) == ("command", "fork", tmp_path / "jobs/w")
    config = json.loads((tmp_path / "jobs/w/config.yaml").read_text())
    assert {key: one["type_name"] for key, one in config["output_artifacts"].items()} == {
        "metric": "json_metric", "rows": "table", "notes": "file",
    }  # fmt: skip
    (tmp_path / "jobs/w" / LAUNCH).write_text(spec.to_json())
    (tmp_path / "jobs/w" / EXIT).write_text(json.dumps({"exit_code": 0, "signal": None, "cause": "exited"}))
    assert not workers.observe(order.worker).succeeded, "without a result file it has not ended well"
