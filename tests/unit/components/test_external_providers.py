"""Providers with a Python of their own: how they are described, found and refused."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fate_flow.components.providers.described import component_info, description_file
from fate_flow.components.providers.external import ExternalProvider
from fate_flow.components.providers.table import ProviderTable, provider_table
from fate_flow.core.access.permission import PermissionRule, missing
from fate_flow.core.model.artifact import ArtifactInfo
from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.modules import ProviderPlace
from fate_flow.core.model.spec import JobParameters
from fate_flow.jobspec.grants_file import read_grants
from fate_flow.server.periodic.describer import Describer
from tests.kit.api.client_world import World, make_world
from tests.kit.components.foreign_provider import VERSION, make_environment, place_of
from tests.kit.jobspec.parsing import parse, problems


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(tmp_path_factory.mktemp("foreign"))


@pytest.fixture(scope="module")
def folder(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what the provider has said, by one run of its Python."""
    folder = tmp_path_factory.mktemp("home") / "providers"
    describer(folder, place_of(python)).step()
    return folder


def describer(folder: Path, *places: ProviderPlace) -> Describer:
    return Describer({one.name: one for one in places}, folder, lambda: None)


def table(folder: Path, place: ProviderPlace) -> ProviderTable:
    return provider_table("9999", {place.name: place}, folder)


def conf(**parameters: Any) -> dict[str, Any]:
    return {
        "dsl_version": 2, "initiator": {"role": "guest", "party_id": 9999}, "role": {"guest": [9999]},
        "component_parameters": {"common": {"a": parameters}},
    }  # fmt: skip


def dsl(module: str, **more: str) -> dict[str, Any]:
    return {"components": {"a": {"module": module, **more}}}


def test_a_describer_that_ends_while_its_process_starts_ends_that_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the thread waits for it, and the process outlives the scheduler in the group of the server."""
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 20\n")
    slow.chmod(0o700)
    one, started = describer(tmp_path / "providers", place_of(slow)), list[subprocess.Popen[bytes]]()

    class EndedMeanwhile(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            started.append(self)
            one.end()

    monkeypatch.setattr(subprocess, "Popen", EndedMeanwhile)
    one.step()
    assert [process.returncode for process in started] == [-signal.SIGKILL]


# ---------------------------------------------------------------------- described


def test_components_are_described_by_their_own_python_and_have_the_name_of_the_provider(
    folder: Path, python: Path
) -> None:
    modules = table(folder, place_of(python)).components
    assert [one for one in modules if "." in one] == ["foreign.say", "foreign.train"]
    say, train = modules["foreign.say"], modules["foreign.train"]
    assert (say.name, say.description, say.roles) == ("say", "says a text", {"guest", "host"})
    assert (train.stages, say.stages) == ({"train", "predict", "cross_validation"}, {"default"})
    assert train.inputs == {
        "train_data": ArtifactInfo("data", ("dataframe", "table"), frozenset({"guest", "host"}), frozenset({"train"})),
        "cv_data": ArtifactInfo(
            "data", ("dataframe", "table"), frozenset({"guest", "host"}), frozenset({"cross_validation"}), True, True
        ),
        "input_model": ArtifactInfo("model", ("json_model",), frozenset({"guest"}), frozenset({"predict"})),
    }
    assert train.outputs_at("guest", "train") == {"output_model": "json_model"}
    assert (train.outputs_at("host", "train"), train.outputs_at("guest", "predict")) == ({}, {})
    assert modules.document_of("foreign.say")["component"]["version"] == VERSION      # type: ignore[index]
    assert modules.document_of("Reader")["component"]["name"] == "reader"             # type: ignore[index]


def test_parameters_are_checked_as_the_provider_describes_them(folder: Path, python: Path) -> None:
    say = table(folder, place_of(python)).components["foreign.say"]
    assert say.check({"text": "x", "times": 2}, "guest") == []
    assert say.check({"times": None}, "guest") == [
        "text is missing; a value of the type 'str' (what it says) is needed"
    ]
    assert say.check({"text": 1, "times": 0, "tims": 1}, "guest") == [
        "text: 1 is not a value of the type 'str' (what it says)",
        "times: 0 is not a value of the type 'ConstrainedIntValue'",
        "tims: is not known; did you mean times",
    ]


@pytest.mark.parametrize(("value", "is_right"), [
    ({"metrics": ["iv"], "threshold": [0.1]}, True),
    ({"metrics": "iv", "threshold": 0.1, "seed": None, "he": {"kind": None}}, True),
    ({"metrics": 1}, False),
    ({"threshold": "high"}, False),
    ({"seed": "x"}, False),
    ({"he": {"kind": 1}}, False),
    (["iv"], False),
])  # fmt: skip
def test_inside_an_object_a_value_may_stand_for_a_list_of_one_and_null_for_nothing(
    python: Path, tmp_path: Path, value: object, is_right: bool
) -> None:
    """As in FATE's own examples: its readers take that, and its description has the lists alone."""
    schema = {
        "type": "object", "definitions": {"HE": {"type": "object", "properties": {"kind": {"type": "string"}}}},
        "properties": {
            "metrics": {"type": "array", "items": {"type": "string"}}, "seed": {"type": "integer"},
            "threshold": {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "integer"}]}},
            "he": {"$ref": "#/definitions/HE"},
        },
    }  # fmt: skip
    parameters = {
        "filter": {"type": "Filter", "optional": True, "type_meta": schema},
        "columns": {"type": "List", "optional": True, "type_meta": {"type": "array", "items": {"type": "string"}}},
    }
    info = component_info(ExternalProvider(place_of(python), tmp_path), {
        "name": "choose", "roles": ["guest"], "parameters": parameters,
    })  # fmt: skip
    assert (info.check({"filter": value}, "guest") == []) is is_right
    assert info.check({"columns": "iv"}, "guest") == ["columns: 'iv' is not a value of the type 'List'"]


def test_a_parameter_of_some_stage_may_be_missing_from_another_one(folder: Path, python: Path) -> None:
    train = table(folder, place_of(python)).components["foreign.train"]
    assert train.check({}, "guest") == []
    assert train.check({"method": 1}, "guest") == ["method: 1 is not a value of the type 'str'"]


def test_a_provider_is_described_once_and_again_when_its_environment_has_changed(tmp_path: Path) -> None:
    place = place_of(make_environment(tmp_path / "env"))
    folder = tmp_path / "providers"
    one = describer(folder, place)
    one.step()
    file = description_file(folder, place)
    first = file.stat().st_mtime_ns, file.stat().st_ino
    one.step()
    describer(folder, place).step()
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == first, "it was read again"
    (site,) = (tmp_path / "env").glob("lib/*/site-packages")
    (site / "another.py").touch()
    one.step()
    assert file.stat().st_ino != first[1]


@pytest.mark.parametrize(("version", "change", "why"), [
    ("1.4.1", "", "version: '1.4.1' is not what this Python has: foreign is 1.4.0 there"),
    (VERSION, "raise RuntimeError('no library x')", "python: RuntimeError: no library x"),
    (VERSION, "import sys; sys.exit(3)", "module: foreign.components component list ended with 3"),
    (VERSION, "print('hello'); raise SystemExit",
     "module: its command 'component list' prints no names of components by their origin"),
])  # fmt: skip
def test_what_prevents_a_description_is_said_where_the_provider_is_listed(
    version: str, change: str, why: str, tmp_path: Path
) -> None:
    python = make_environment(tmp_path / "env")
    if change:
        (main,) = (tmp_path / "env").glob("lib/*/site-packages/foreign/components/__main__.py")
        main.write_text(change)
    place = place_of(python, version)
    describer(tmp_path / "providers", place).step()
    modules = table(tmp_path / "providers", place).components
    (state,) = modules.states()
    assert (state.is_ready, state.why_not, state.version) == (False, why, version)
    assert list(modules) == [one for one in modules if "." not in one]
    assert problems(dsl("foreign.say"), conf(), modules=modules, defaults=JobParameters()) == [
        f"dsl.components.a.module: party 9999 cannot use its provider foreign {version} now: {why}"
    ]


def test_a_description_that_took_too_long_is_tried_again(
    python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine may have been busy."""
    place, now = place_of(python), [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    one = describer(tmp_path, place)

    def why_not() -> str:
        return table(tmp_path, place).components.states()[0].why_not

    with monkeypatch.context() as patch:
        patch.setattr("fate_flow.server.periodic.describer._LONGEST_SECONDS", 0.0)
        one.step()
    late = "module: foreign.components did not describe its components in 0 s; it is asked again 600 s later"
    assert why_not() == late
    now[0] += 599
    one.step()
    assert why_not() == late
    now[0] += 1
    one.step()
    assert why_not() == ""


def test_a_description_that_cannot_be_read_is_named(folder: Path, python: Path, tmp_path: Path) -> None:
    place = place_of(python)
    file = description_file(tmp_path, place)
    for text in ("{", '{"format": 1}', '{"format": 1, "components": {"a": {"name": "a"}}}', "[]"):
        file.write_text(text)
        (state,) = table(tmp_path, place).components.states()
        assert (state.is_ready, str(file) in state.why_not) == (False, True), text
    file.write_text(json.dumps({"format": 99}))
    assert "not described yet" in table(tmp_path, place).components.states()[0].why_not
    describer(tmp_path, place).step()
    assert table(tmp_path, place).components.states()[0].is_ready


# ---------------------------------------------------------------------- found and refused


@pytest.mark.parametrize("component", [
    dsl("foreign.say"), dsl("say", provider="foreign"), dsl("say", provider="foreign@1.4.0"),
    dsl("foreign.say", provider="foreign@1.4.0"),
])
def test_a_document_names_a_component_by_its_provider(component: dict[str, Any], folder: Path, python: Path) -> None:
    modules = table(folder, place_of(python)).components
    spec = parse(component, conf(text="x"), modules=modules, defaults=JobParameters())
    assert (spec.tasks["a"].module, spec.warnings) == ("foreign.say", ())


@pytest.mark.parametrize(("component", "problem"), [
    (dsl("foreign.say", provider="foreign@1.3"), "party 9999 has foreign 1.4.0, not version '1.3'"),
    (dsl("say", provider="other@1.3"), "party 9999 has no provider 'other', from which 'say' would come; it has: "
     "foreign 1.4.0 (providers, in its configuration)"),
    (dsl("other.say"), "party 9999 has no provider 'other', from which 'say' would come; it has: foreign 1.4.0 "
     "(providers, in its configuration)"),
    (dsl("foreign.sai"), "party 9999 has foreign 1.4.0, which has no component 'sai'; did you mean say"),
    (dsl("foreign.zz"), "party 9999 has foreign 1.4.0, which has no component 'zz'; it has: say, train"),
    (dsl("foreign.say", provider="other"), "'foreign.say' is a component of the provider 'foreign', not of 'other'"),
])  # fmt: skip
def test_a_missing_provider_version_or_component_is_named_with_the_party(
    component: dict[str, Any], problem: str, folder: Path, python: Path
) -> None:
    modules = table(folder, place_of(python)).components
    found = problems(component, conf(text="x"), modules=modules, defaults=JobParameters())
    assert f"dsl.components.a.module: {problem}" in found


def test_a_component_of_ours_stays_ours_whatever_provider_a_document_names(folder: Path, python: Path) -> None:
    modules = table(folder, place_of(python)).components
    assert modules.find_of("fate@1.11.2", "Reader") == ("Reader", "")
    assert modules.find_of("fate", "HeteroLR") == modules.find_of("fate_flow@1", "HeteroLR") == ("", "")


def test_no_provider_of_the_configuration_has_the_name_of_one_of_ours(python: Path) -> None:
    for name in ("builtin", "command", "fate_flow"):
        place = ProviderPlace(name, "1", str(python), "x")
        with pytest.raises(BadSettings, match=rf"providers\.{name}: this is the name of a provider of fate_flow"):
            provider_table("9999", {name: place}, Path("/nowhere"))


def test_jobs_of_others_need_grants_for_its_components_by_their_full_names(folder: Path, python: Path) -> None:
    modules, rule = table(folder, place_of(python)).components, PermissionRule(components=True)

    def granted(*names: str) -> tuple[set[str], int]:
        """What a job still lacks, and how many names of the file are wrong."""
        document = {"version": 1, "parties": {"10000": {"components": list(names)}}}
        grants, found = read_grants(document, modules, "9999")
        spec = parse(dsl("foreign.say"), conf(text="x"), modules=modules, defaults=JobParameters())
        things = grants["10000"].things if grants else ()
        return {one.name for one in missing(rule, spec, spec.initiator, things, lambda *_: iter(()))}, len(found)

    assert granted("Reader", "foreign.train") == ({"foreign.say"}, 0)
    assert granted("foreign.say") == granted("Foreign.Say") == granted("*") == (set(), 0)
    assert granted("say")[1] == 1


# ---------------------------------------------------------------------- for clients


@pytest.fixture
def world(tmp_path: Path, folder: Path, python: Path) -> Iterator[World]:
    world = make_world(tmp_path, modules=table(folder, place_of(python)).components)
    yield world
    world.store.close()


def test_clients_see_providers_and_the_descriptions_of_their_components(world: World, python: Path) -> None:
    assert world.ask("provider/foreign/get", {})["data"] == {"foreign": {VERSION: {
        "path": str(python), "class_path": {}, "components": ["foreign.say", "foreign.train"], "is_ready": True,
        "why_not": "",
    }}}  # fmt: skip
    said = world.ask("component/describe", {"component": "Foreign.say"})["data"]
    assert (said["module"], said["component"]["parameters"]["text"]["type"]) == ("foreign.say", "str")
    assert world.ask("component/describe", {"component": "intersection"})["data"]["module"] == "Intersection"
    mistyped = ("Intersecton", "did you mean Intersection; known: Command,")
    for name, why in (("foreign.x", "has no component 'x'"), mistyped):
        refused = world.post("component/describe", {"component": name})
        assert (refused.status_code, why in refused.get_json()["retmsg"]) == (404, True)


def test_a_submit_asks_the_description_of_an_external_provider(world: World) -> None:
    body = {"job_dsl": dsl("foreign.say"), "job_runtime_conf": conf()}
    assert "a at guest 9999: text is missing" in world.ask("job/submit", body)["retmsg"]
    assert world.ask("job/submit", body | {"job_runtime_conf": conf(text="x")})["retcode"] == 0
