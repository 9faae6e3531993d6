"""Which outputs of other tasks a task reads, for clients of FATE 2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fate_flow.core.model.spec import JobSpec, Party, TaskSpec


def dependencies_of(spec: JobSpec, party: Party) -> dict[str, Any]:
    """Return the tasks of a job at a party, with what each of them reads there."""
    tasks = spec.tasks_of(party)
    return {
        "component_list": [task.name for task in tasks],
        "component_module": {task.name: task.module.rpartition(".")[2] for task in tasks},
        "component_stage": {task.name: task.stage for task in tasks},
        "dependencies": {task.name: list(_read_by(task, party)) or [{"up_output_info": []}] for task in tasks},
    }


def _read_by(task: TaskSpec, party: Party) -> Iterator[dict[str, Any]]:
    for one in task.inputs:
        for source in one.sources if one.is_read_at(party) else ():
            yield {
                "component_name": source.producer, "model_type": one.kind, "type": one.key,
                "up_output_info": [source.alias],
            }  # fmt: skip
