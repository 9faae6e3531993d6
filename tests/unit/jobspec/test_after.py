"""`after`: a task waits for another one from which it takes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fate_flow.core.model.dag import downstream_of, may_start
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import TaskStatus
from fate_flow.core.planning.partial import absent
from fate_flow.core.planning.rerun import tasks_anew
from fate_flow.core.wire.v1.initiator_bodies import RerunRequest
from tests.kit.jobspec.fate_v1_documents import DEFAULTS, MODULES
from tests.kit.jobspec.native_documents import a_file, spec_of, translated, wrong_with
from tests.kit.jobspec.parsing import parse, problems
from tests.kit.values import GUEST, HOST, a_seat, a_spec, a_task, a_view

T = TaskStatus


def a_job_file(**after: Any) -> dict[str, Any]:
    """Readers that wait for those named; `last` comes first in the file."""
    tasks: dict[str, Any] = {
        name: {"component": "Reader", "outputs": {"data": ["x"]}} for name in ("last", "a", "b")
    }  # fmt: skip
    for name, others in after.items():
        tasks[name]["after"] = others
    return a_file(tasks=tasks)


def test_a_task_comes_after_those_that_it_names() -> None:
    spec = spec_of(a_job_file(last=["a", "b"], b=["a"]))
    assert list(spec.tasks) == ["a", "b", "last"]
    assert spec.tasks["last"].upstream == {"a", "b"}
    assert spec.tasks["last"].producers == frozenset()


@pytest.mark.parametrize(("done", "ready"), [("", "a"), ("a", "b"), ("ab", "last")])
def test_it_starts_when_they_have_succeeded(done: str, ready: str) -> None:
    spec = spec_of(a_job_file(last=["a", "b"], b=["a"]))
    statuses = {name: T.SUCCESS if name in done else T.WAITING for name in spec.tasks}
    assert may_start(spec, statuses) == (ready,)


def test_one_that_passes_is_waited_for_no_longer() -> None:
    spec = spec_of(a_job_file(b=["a"]))
    assert "b" in may_start(spec, {"a": T.PASS, "b": T.WAITING, "last": T.SUCCESS})
    assert "b" not in may_start(spec, {"a": T.RUNNING, "b": T.WAITING, "last": T.SUCCESS})


def test_data_and_order_make_one_dag() -> None:
    document = a_job_file(a=["last"])
    document["tasks"]["b"] |= {"component": "Intersection", "inputs": {"data": {"data": ["a.x"]}}}
    spec = spec_of(document)
    assert list(spec.tasks) == ["last", "a", "b"]
    assert downstream_of(spec, frozenset({"last"})) == {"last", "a", "b"}


def test_a_rerun_from_a_task_takes_along_what_comes_after_it() -> None:
    spec = spec_of(a_job_file(b=["a"]))
    statuses = dict.fromkeys(spec.tasks, T.SUCCESS)
    assert tasks_anew(spec, statuses, RerunRequest("a"), is_complete=True) == {"a", "b"}
    assert tasks_anew(spec, {**statuses, "a": T.FAILED}, RerunRequest()) == {"a", "b"}


@pytest.mark.parametrize(("after", "problem"), [
    ({"b": ["x"]}, "tasks.b.after[0]: there is no component 'x'; the components are: last, a, b"),
    ({"b": ["lst"]}, "tasks.b.after[0]: there is no component 'lst'; did you mean last"),
    ({"b": ["b"]}, "tasks.b.after: b waits for b: they form a loop"),
    ({"a": ["b"], "b": ["a"]}, "tasks.a.after: a waits for b waits for a: they form a loop"),
    ({"b": ["a", "a"]}, "tasks.b.after[1]: 'a' is there twice"),
    ({"b": "a"}, "tasks.b.after: 'a' is not a list"),
    ({"b": [7]}, "tasks.b.after[0]: 7 is not text"),
])  # fmt: skip
def test_what_is_wrong_is_told_with_the_path_in_the_file(after: dict[str, Any], problem: str) -> None:
    assert wrong_with(a_job_file(**after)) == [problem]


def test_a_loop_over_data_and_order_is_found() -> None:
    document = a_job_file(a=["b"])
    document["tasks"]["b"] |= {"component": "Intersection", "inputs": {"data": {"data": ["a.x"]}}}
    assert wrong_with(document) == ["tasks.a.after: a waits for b waits for a: they form a loop"]


def documents_with(after: object, place: str = "common") -> list[str]:
    job = translated(a_job_file())
    said = {"common": {}} if place == "common" else {"role": {"host": {"0": {}}}}
    block = said["common"] if place == "common" else said["role"]["host"]["0"]
    block["task_conf"] = {"b": {"after": after}}
    conf = {**job.runtime_conf, "job_parameters": said}
    return problems(job.dsl, conf, modules=MODULES, defaults=DEFAULTS, strict=True)


def test_it_stands_in_the_task_conf_of_the_documents_of_fate() -> None:
    conf = translated(a_job_file(b=["a"])).runtime_conf
    assert conf["job_parameters"]["common"]["task_conf"]["b"] == {"after": ["a"]}
    assert documents_with(["a"]) == []
    path = "job_runtime_conf.job_parameters.common.task_conf.b.after"
    assert documents_with(7) == [f"{path}: 7 is not a list of components"]
    assert documents_with(["a", "a"]) == [f"{path}: names a component twice"]
    assert documents_with(["c"]) == [f"{path}[0]: there is no component 'c'; the components are: last, a, b"]


def test_it_holds_for_all_parties() -> None:
    (problem,) = documents_with(["a"], "role")
    assert problem.startswith("job_runtime_conf.job_parameters.role.host.0.task_conf.b.after: cannot differ by party")


def test_every_party_reads_the_same_order_from_what_it_is_sent() -> None:
    spec = spec_of(a_job_file(last=["b"]))
    job = translated(a_job_file(last=["b"]))
    again = parse(job.dsl, spec.conf, modules=MODULES, defaults=replace(DEFAULTS, task_cores=1))
    assert list(again.tasks) == ["a", "b", "last"]
    assert again.tasks["last"].after == {"b"}


@pytest.mark.parametrize(("reads", "after", "gone"), [(["a"], [], {HOST}), ([], ["a"], set())])
def test_who_is_missing_from_a_task_takes_part_in_what_only_comes_after_it(
    reads: list[str], after: list[str], gone: set[Party]
) -> None:
    spec = a_spec({"a": (), "b": reads})
    second = replace(spec.tasks["b"], after=frozenset(after), min_available={"host": 0})
    rows = (a_task("a", GUEST, T.SUCCESS), replace(a_task("a", HOST, T.SUCCESS), party_status=T.CANCELED))
    spec = replace(spec, tasks={**spec.tasks, "b": second})
    assert absent(a_view(spec=spec, tasks=rows, seats=(a_seat(GUEST), a_seat(HOST))), "b") == gone
