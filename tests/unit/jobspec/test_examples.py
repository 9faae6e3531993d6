"""What a job file of docs/examples means is what its comment says."""

from __future__ import annotations

from pathlib import Path

from fate_flow.api.v1.jobs.job_file import read_yaml
from fate_flow.components.providers.table import CATALOGUE
from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.spec import JobParameters, JobSpec
from fate_flow.jobspec.formats import NATIVE, parse

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples"


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
