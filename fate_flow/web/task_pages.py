"""The page of a task, and that of its metrics."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from flask import Blueprint, Response, request, send_file

from fate_flow.api.v1.outputs.task_files import TaskFiles, is_published
from fate_flow.core.model.errors import FlowError, NotFound
from fate_flow.core.model.grammar import check_component_name, check_job_id, check_output_name, shown
from fate_flow.core.model.job import Task
from fate_flow.core.planning.condition import condition_of_task
from fate_flow.core.wire.v1.paths import TASK_LOG
from fate_flow.core.wire.v1.queries import ListedWorkers, TaskLogQuery, read_listed
from fate_flow.services.context.recent import MadeValues
from fate_flow.store.values import Metric
from fate_flow.store.views.board_task import TaskShares
from fate_flow.web.board import Board
from fate_flow.web.charts.drawing import SIZES, SIZES_OF_BARS, laid_out
from fate_flow.web.charts.reading import blocks
from fate_flow.web.charts.values import Block
from fate_flow.web.pages import CALM, FRESH, HEADERS
from fate_flow.web.task_addresses import (
    chosen_share,
    number,
    page_number,
    party_in,
    share_arguments,
    task_path,
    worker_place,
    written_worker,
)

BLOCKS_PAGE = 40
MOST_KEPT = 8
"""Tasks, or models, whose charts are kept: those that were looked at last."""


def add_task_pages(routes: Blueprint, board: Board) -> TaskPages:
    pages = TaskPages(board)
    routes.get("/jobs/<job_id>/tasks/<name>")(pages.task)
    routes.get("/jobs/<job_id>/tasks/<name>/metrics")(pages.metrics)
    routes.get("/jobs/<job_id>/tasks/<name>/metrics.csv")(pages.metric_points)
    routes.get("/jobs/<job_id>/tasks/<name>/file")(pages.task_file)
    return pages


class TaskPages:
    def __init__(self, board: Board) -> None:
        self._board, self._queries = board, board.queries
        self._files = TaskFiles(board.services.context)
        self._charts: MadeValues[tuple[Block, ...]] = MadeValues(MOST_KEPT)

    def task(self, job_id: str, name: str) -> Response:
        found, spec = self._shares(job_id, name)
        share = chosen_share(found, party_in(request.args), number(request.args, "version"))
        behind = worker_place(request.args)
        is_here = share is not None and share.runs_here
        details = self._queries.share(share.key, behind) if share is not None and is_here else None
        listed, refusal = self._listed(share, is_here=is_here, is_initiator=found.jobs[0].is_initiator)
        component = spec.tasks.get(name) if spec is not None else None
        goes_on = any(not one.is_final for one in found.shares) or not found.jobs[0].is_final
        condition = condition_of_task(found.jobs[0], found.newest, found.now.troubles, found.now.steady)
        is_newest = share is not None and share in found.newest
        following = written_worker(details.next) if details is not None and details.next is not None else ""
        return self._board.show(
            "task.html", reviews=found.reviews, poll=0 if listed or refusal else FRESH if goes_on else CALM,
            job_id=job_id, name=name, listed=listed, refusal=refusal,
            module=component.module if component else "", after=sorted(component.upstream) if component else (),
            parties=component.parties if component else (), found=found, share=share, details=details,
            is_first=behind is None, following=following, address=Address(job_id, name),
            is_published=is_published(share), condition=condition if is_newest else None,
            is_newest=is_newest,
            is_here=is_here, own=self._board.settings.party_id,
        )  # fmt: skip

    def _listed(self, share: Task | None, *, is_here: bool, is_initiator: bool) -> tuple[ListedWorkers | None, str]:
        """Return the workers that another party lists if somebody has asked for them, or why it lists none."""
        first = number(request.args, "listed")
        if first is None or share is None or is_here or not is_initiator:
            return None, ""
        self._board.check_may("read_logs", "workers of another party")
        key = share.key
        query = TaskLogQuery(
            key.job_id, key.name, key.party, size=1, version=key.version, workers_from=first
        )
        try:
            with self._board.partner_places.one():
                answer = self._board.services.asking_for_logs(key.job_id)(key.party, TASK_LOG, query.as_body())
            if not answer.is_ok:
                return None, answer.retmsg or f"{key.party} does not say why"
            return read_listed(answer.data, key.party), ""
        except FlowError as error:
            return None, error.message

    def metrics(self, job_id: str, name: str) -> Response:
        found, share = self.own_share(job_id, name)
        until, reviews = self._queries.metrics_until(share.key)
        every = self._charts.of(share.key, until, lambda: blocks(self._queries.metrics(share.key))) if until else ()
        page = page_number(request.args)
        some = every[(page - 1) * BLOCKS_PAGE : page * BLOCKS_PAGE]
        return self._board.show(
            "metrics.html", reviews=reviews, poll=0 if share.is_final else FRESH, job_id=job_id, name=name,
            share=share, found=found, address=Address(job_id, name), blocks=[laid_out(one) for one in some],
            count=len(every), page=page, pages=max(1, -(-len(every) // BLOCKS_PAGE)),
            first=(page - 1) * BLOCKS_PAGE, sizes=SIZES, sizes_of_bars=SIZES_OF_BARS,
        )  # fmt: skip

    def metric_points(self, job_id: str, name: str) -> Response:
        """Send all points of one metric as CSV."""
        _, share = self.own_share(job_id, name)
        wanted = request.args.get("namespace", ""), request.args.get("name", "")
        every = self._queries.metrics(share.key)
        metric = next((one for one in every if (one.namespace, one.name) == wanted), None)
        if metric is None:
            raise NotFound(f"name: {name} has no metric {shown(wanted[1])} in {shown(wanted[0])}")
        headers = {**HEADERS, "Content-Disposition": 'attachment; filename="metric.csv"'}
        return Response(_csv(metric), mimetype="text/csv", headers=headers)

    def task_file(self, job_id: str, name: str) -> Response:
        """Send a file that the task has published here."""
        self._board.check_may("read_rows", "files that tasks made")
        _, share = self.own_share(job_id, name)
        output = check_output_name(request.args.get("output", ""), "output")
        path = self._files.of_attempt(share.key, output, self._queries.share(share.key, None).files, "output")
        response = send_file(path, mimetype="application/octet-stream", as_attachment=True, download_name=output)
        response.headers.update(HEADERS)
        return response

    def own_share(self, job_id: str, name: str) -> tuple[TaskShares, Task]:
        """Return the attempts, and the one that is meant. Raise NotFound if it is not one of this party."""
        found, _ = self._shares(job_id, name)
        share = chosen_share(found, party_in(request.args), number(request.args, "version"))
        if share is None or not share.runs_here:
            whose = "it has not begun" if share is None else f"only {share.key.party} has what it made there"
            raise NotFound(f"task {name} of job {job_id}: {whose}")
        return found, share

    def _shares(self, job_id: str, name: str) -> tuple[TaskShares, Any]:
        """Return the attempts of a task and the specification of its job. Raise NotFound."""
        until = number(request.args, "attempts")
        found = self._queries.task(check_job_id(job_id), check_component_name(name, "task"), until)
        if found is None:
            raise self._board.unknown(job_id)
        version = number(request.args, "version")
        if version is not None and found.next is not None and version <= found.next:
            found = self._queries.task(job_id, name, version) or found
        spec = self._board.spec(found.jobs[0])
        if not found.shares and until is None and (spec is None or name not in spec.tasks):
            raise NotFound(f"job {job_id} has no task {name}")
        return found, spec


class Address:
    """Addresses of pages of one task, for templates."""

    def __init__(self, job_id: str, name: str) -> None:
        self._job_id, self._name = job_id, name

    def __call__(self, page: str = "", /, share: Task | None = None, **arguments: object) -> str:
        of_share = share_arguments(share.key) if share is not None else {}
        return task_path(self._job_id, self._name, page, **of_share, **arguments)


def _csv(metric: Metric) -> Iterator[str]:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(("key", "value", "seconds since the epoch"))
    for point in metric.data:
        writer.writerow([one if isinstance(one, int | float) else str(one) for one in point])
        if text.tell() > 64 * 1024:
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()
