"""The page of the queue, and that of the jobs that need an approval here. Each goes on behind its last row."""

from __future__ import annotations

import re
from collections.abc import Mapping

from flask import Blueprint, Response, request

from fate_flow.api.v1.jobs.list_arguments import read_place, written_place
from fate_flow.api.v1.rendering.queue import queued
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import shown
from fate_flow.store.views.board import PAGE
from fate_flow.store.views.snapshots import QueuePlace
from fate_flow.web.board import Board
from fate_flow.web.pages import FRESH

_WRITTEN_PLACE = re.compile(r"(-?[0-9]{1,18})_([0-9]{1,15})_([0-9]{14,25})")


def add_queue_pages(routes: Blueprint, board: Board) -> None:
    @routes.get("/queue")
    def queue() -> Response:
        """Show the waiting jobs of this party in their order."""
        behind = _queue_place(request.args)
        page, following = board.queries.queue(behind)
        after = f"/board/queue?from={_written(following)}" if following else ""
        return board.show(
            "queue.html", reviews=page.reviews, poll=FRESH, found=queued(page), is_first=behind is None, after=after,
            page_size=PAGE,
        )  # fmt: skip

    @routes.get("/approvals")
    def approvals() -> Response:
        """Show the jobs of other parties that need an approval of this one, oldest first."""
        behind = read_place(request.args)
        page, following = board.queries.jobs_to_review(behind)
        after = f"/board/approvals?from={written_place(following)}" if following else ""
        return board.show(
            "approvals.html", reviews=page.reviews, poll=FRESH, jobs=queued(page)["unapproved"], count=page.reviews,
            is_first=behind is None, after=after,
        )  # fmt: skip


def _queue_place(given: Mapping[str, str]) -> QueuePlace | None:
    """Return behind which place of the queue a page begins; None: at its begin. Raise BadRequest."""
    text = given.get("from", "")
    if not text:
        return None
    found = _WRITTEN_PLACE.fullmatch(text)
    if found is None:
        raise BadRequest(f"from: {shown(text)} is not a place of the queue as a link of this page has it")
    return QueuePlace(int(found[1]), int(found[2]), found[3])


def _written(place: QueuePlace) -> str:
    return f"{place.queue_key}_{place.create_time}_{place.job_id}"
