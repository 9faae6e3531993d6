"""What a job file of docs/examples means is what its comment says."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.api.v1.jobs.job_file import read_yaml
from fate_flow.components.providers.table import CATALOGUE
from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.spec import JobParameters, JobSpec
from fate_flow.jobspec.formats import NATIVE, parse

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"
FILES = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.yaml"))
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


@pytest.mark.parametrize("name", FILES)
def test_every_job_file_is_read_and_names_scripts_that_are_there(name: str) -> None:
    tasks = spec_of(name).tasks
    assert tasks
    text = (EXAMPLES / name).read_text(encoding="utf-8")
    folder = name.rpartition("/")[0]
    named = [one for one in SCRIPTS if one.rpartition("/")[0] == folder] if folder else []
    assert all(f"path: {one}" in text for one in named)


@pytest.mark.parametrize("name", SCRIPTS)
def test_every_script_is_python(name: str) -> None:
    """Those of frameworks run in `bin/test --heavy` alone."""
    assert compile((EXAMPLES / name).read_text(encoding="utf-8"), name, "exec")
