"""The page of what an attempt of a task has used at this party, beside what was reserved for it."""

from __future__ import annotations

from flask import Blueprint, Response, request

from fate_flow.core.model.job import Worker
from fate_flow.core.model.resources import Need
from fate_flow.core.model.spec import JobSpec
from fate_flow.core.planning.elastic import need_of
from fate_flow.services.workers.placement import request_of_task_at
from fate_flow.web.board import Board
from fate_flow.web.charts.drawing import SIZES, laid_out
from fate_flow.web.charts.worker_usage import UsedBy, worker_blocks
from fate_flow.web.pages import CALM
from fate_flow.web.task_addresses import worker_place, written_worker
from fate_flow.web.task_pages import Address, TaskPages


def add_usage_pages(routes: Blueprint, board: Board, tasks: TaskPages) -> None:
    @routes.get("/jobs/<job_id>/tasks/<name>/usage")
    def usage(job_id: str, name: str) -> Response:
        """Show a page of workers, as the page of the task has them."""
        found, share = tasks.own_share(job_id, name)
        behind, spec = worker_place(request.args), board.spec(found.jobs[0])
        details = board.queries.share(share.key, behind)
        engines = board.services.context.engines
        workers = [UsedBy(one, engines.of(one).used(one), _need(board, spec, one)) for one in details.workers]
        return board.show(
            "usage.html", reviews=found.reviews, poll=0 if share.is_over_here else CALM, job_id=job_id, name=name,
            found=found, share=share, workers=workers, count=details.worker_count, is_first=behind is None,
            following=written_worker(details.next) if details.next is not None else "",
            blocks=[laid_out(one) for one in worker_blocks(workers)], address=Address(job_id, name), sizes=SIZES,
        )  # fmt: skip


def _need(board: Board, spec: JobSpec | None, worker: Worker) -> Need | None:
    """Return what is reserved for a worker; None if the document of its job cannot be read."""
    task = spec.tasks.get(worker.task.name) if spec is not None else None
    if spec is None or task is None:
        return None
    asked = request_of_task_at(board.services.context, spec, task, worker.task.party, worker.engine)
    return need_of(asked, task.programs.get(worker.task.party), worker)
