"""The files that tasks have published at this party."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fate_flow.core.model.errors import NotFound
from fate_flow.core.model.job import Task, TaskKey, Worker
from fate_flow.core.model.spec import Party
from fate_flow.core.model.status import TASK_END, TaskStatus
from fate_flow.core.planning.replicas import COLLECTOR
from fate_flow.services.artifacts.kinds import files_of
from fate_flow.services.context.ports import Context


def is_published(share: Task | None) -> bool:
    """Return whether others may read what it made: the task has succeeded at all parties."""
    return share is not None and share.status is TaskStatus.SUCCESS and share.party_status in TASK_END


class TaskFiles:
    def __init__(self, context: Context) -> None:
        self._context, self._engines = context, context.engines

    def path(self, job_id: str, name: str, party: Party, output: str) -> Path:
        """Return a published file: files are published once the task has succeeded at all parties. Raise NotFound."""
        files = self._context.read(lambda tx: files_of(tx, job_id, name, party))
        if output not in files:
            known = ", ".join(sorted(files)) or "none"
            raise NotFound(f"output_name: {name} has published no file {output} on {party}; its files are: {known}")
        workers = self._context.read(lambda tx: tx.workers_of(job_id))
        of_task = [one for one in workers if (one.task.name, one.task.party, one.slot) == (name, party, COLLECTOR)]
        return self._made_by(max(of_task, key=lambda one: one.task.version, default=None), name, party, output)

    def of_attempt(self, key: TaskKey, output: str, made: Mapping[str, Any], argument: str) -> Path:
        """Return a file of one attempt, which has `made` these. `argument`: which one names the output.

        Raise NotFound if it has not been published."""
        share = self._context.read(lambda tx: tx.task(key))
        if output not in (made if is_published(share) else {}):
            raise NotFound(f"{argument}: attempt {key.version + 1} of {key.name} has published no file {output} here")
        return self._of_attempt(key, output)

    def _of_attempt(self, key: TaskKey, output: str) -> Path:
        collectors = self._context.read(lambda tx: tx.workers_of_task(key, COLLECTOR))
        return self._made_by(collectors[-1] if collectors else None, key.name, key.party, output)

    def _made_by(self, collector: Worker | None, name: str, party: Party, output: str) -> Path:
        path = self._engines.of(collector).output_file(collector, output) if collector is not None else None
        if path is None:
            raise NotFound(f"output_name: {output} of {name} on {party} was removed with its job's folder (retention)")
        return path
