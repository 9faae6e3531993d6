"""What a job file of docs/examples means is what its comment says."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.api.v1.jobs.job_file import read_yaml
from fate_flow.components.providers.table import CATALOGUE
from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.spec import JobParameters, JobSpec
from fate_flow.jobspec.formats import NATIVE, parse
from fate_flow.jobspec.native.schema import JOB
from fate_flow.jobspec.text.document import Findings, Node
from fate_flow.jobspec.text.shape import Shape

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
FILES = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.yaml"))
OF_FATE = [name for name in FILES if name.startswith("fate/")]
"""Their components are known where FATE is installed: `bin/test --heavy` runs them. Here, their form is checked."""
SCRIPTS = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py"))


def spec_of(name: str) -> JobSpec:
    reading = read_yaml((EXAMPLES / name).read_text(encoding="utf-8"))
    return parse(JobDocument(NATIVE, reading.value), modules=CATALOGUE, defaults=JobParameters(), strict=True)


def test_one_task_follows_the_other() -> None:
    spec = spec_of("one_after_the_other.yaml")
    assert (spec.ttl_seconds, spec.max_failed_workers) == (86_400, 5)
    tasks = spec.tasks
    assert {name: task.upstream for name, task in tasks.items()} == {
        "prepare": set(), "train": {"prepare"}, "report": {"train"},
    }  # fmt: skip
    assert not any(task.producers for task in tasks.values())


@pytest.mark.parametrize("name", [name for name in FILES if name not in OF_FATE])
def test_every_job_file_is_read_and_names_scripts_that_are_there(name: str) -> None:
    tasks = spec_of(name).tasks
    assert tasks
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    folder = name.rpartition("/")[0]
    named = [one for one in SCRIPTS if one.rpartition("/")[0] == folder] if folder else []
    assert all(f"path: {one}" in text for one in named)


@pytest.mark.parametrize("name", OF_FATE)
def test_every_job_file_with_components_of_fate_has_the_form_of_one(name: str) -> None:
    document = read_yaml((EXAMPLES / name).read_text(encoding="utf-8")).value
    findings = Findings(strict=True)
    Shape(JOB).check(Node(document, "", findings))
    assert [problem.message for problem in findings.problems] == []
    assert all(one["component"].startswith(("Reader", "fate.")) for one in document["tasks"].values())


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_is_python(name: str) -> None:
    """Those of frameworks run in `bin/test --heavy` alone."""
    assert compile((EXAMPLES / name).read_text(encoding="utf-8"), name, "exec")
