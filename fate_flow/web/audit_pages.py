"""The page of the record: its logs, contradictions of other parties, and its entries."""

from __future__ import annotations

import re
from shlex import quote
from urllib.parse import urlencode

from flask import Blueprint, Response, request

from fate_flow.api.v1.jobs.list_arguments import time_in
from fate_flow.core.model.errors import BadRequest, NotFound
from fate_flow.core.model.grammar import check_job_id, check_party_id, shown
from fate_flow.core.record.entry import OWN_LOG, Kind, log_with
from fate_flow.core.record.sentences import place_of
from fate_flow.store.views.board import MOST_SEARCHED
from fate_flow.store.views.board_record import RecordSearch
from fate_flow.web.board import Board
from fate_flow.web.jobs.sequence import sequence_of
from fate_flow.web.pages import CALM, counted_piece
from fate_flow.web.task_addresses import number

_FILTERS = ("kind", "job", "party", "person", "status", "digest", "after", "before")
_OPTIONS = {"after": "since", "before": "until"}
"""The options of the command whose names are others."""
_DIGEST = re.compile(r"[0-9a-f]{16,64}")
_STATUS = re.compile(r"[a-z]{1,20}")
_LONGEST = 100


def add_audit_pages(routes: Blueprint, board: Board) -> None:
    @routes.get("/audit")
    def audit() -> Response:
        """Show entries of the record, newest first."""
        board.check_may("audit", "the record (audit)")
        given = {key: request.args.get(key, "").strip() for key in _FILTERS}
        before = number(request.args, "from") or 0
        search = _search(given)
        found = board.queries.record(search, before)
        kept = {key: value for key, value in given.items() if value}
        older = f"/board/audit?{urlencode({**kept, 'from': found.next})}" if found.next else ""
        return board.show(
            "audit/record.html", reviews=found.reviews, poll=0 if before else CALM, found=found, given=given, kept=kept,
            kinds=[one.value for one in Kind], is_on=board.services.context.keeps_record, older=older,
            is_first=not before, most_searched=MOST_SEARCHED, command=_command(given), search=search,
            counting=f"/board/audit/count?{urlencode(kept)}",
        )  # fmt: skip

    @routes.get("/audit/count")
    def count_entries() -> Response:
        """Count on, as the list of entries asks."""
        board.check_may("audit", "the record (audit)")
        search = _search({key: request.args.get(key, "").strip() for key in _FILTERS})
        found = board.queries.count_entries(search, number(request.args, "from") or 0)
        return counted_piece(found.count, found.looked_at, found.next)

    @routes.get("/jobs/<job_id>/record")
    def record_of_job(job_id: str) -> Response:
        """Draw what is recorded about a job, a part of it at a time."""
        board.check_may("audit", "the record (audit)")
        after = number(request.args, "from") or 0
        found = board.queries.record_of_job(check_job_id(job_id), after)
        if not found.count:
            raise NotFound(f"nothing is recorded about job {job_id} (record.switch)")
        drawn = sequence_of(found.entries, board.settings.party_id)
        return board.show(
            "audit/job.html", reviews=found.reviews, poll=0 if after or found.next else CALM, found=found, drawn=drawn,
            job_id=job_id, after=after, place_of=place_of,
        )  # fmt: skip


def _search(given: dict[str, str]) -> RecordSearch:
    """Return what the filters mean. Raise BadRequest."""
    kind, party = given["kind"], given["party"]
    if kind and kind not in {one.value for one in Kind}:
        raise BadRequest(f"kind: {shown(kind)} is no kind of an entry: {', '.join(one.value for one in Kind)}")
    job_id = check_job_id(given["job"], "job") if given["job"] else ""
    log = OWN_LOG if party == OWN_LOG else log_with(check_party_id(party, "party")) if party else ""
    person, status, digest = given["person"], given["status"], given["digest"].lower()
    if status and not _STATUS.fullmatch(status):
        raise BadRequest(f"status: {shown(status)} is no status of a job, a seat, a task or a worker, such as failed")
    if digest and not _DIGEST.fullmatch(digest):
        raise BadRequest(f"digest: {shown(digest)} is not a digest, a message number or a trace, in hexadecimal digits")
    if len(person) > _LONGEST or not person.isprintable():
        raise BadRequest(f"person: is longer than {_LONGEST} characters, or not printable")
    return RecordSearch(kind, job_id, log, time_in(given, "after"), time_in(given, "before"), person, status, digest)


def _command(given: dict[str, str]) -> str:
    if given["job"]:
        return f"fate_flow audit show -j {given['job']}"
    options = [
        f"--{_OPTIONS.get(key, key)} {quote(value)}" for key, value in given.items()
        if value and (key, value) != ("party", OWN_LOG)
    ]  # fmt: skip
    return " ".join(["fate_flow audit search", *options])
