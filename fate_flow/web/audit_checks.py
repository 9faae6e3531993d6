"""What auditors do with the record on the board: verify all logs, and compare one with that of another party.

A request does either, and shows what was found. It reads a bounded number of entries, and one thread of a process does
so at a time: the others go on to serve pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from flask import Blueprint, Response, request

from fate_flow.api.v1.party.audit import compared, compared_by_asking
from fate_flow.core.model.errors import BadRequest, Busy
from fate_flow.core.model.grammar import check_party_id
from fate_flow.core.record.comparison import Finding, Outcome
from fate_flow.services.record.anchoring import verify_for_request
from fate_flow.services.record.verifying import LogReport, State
from fate_flow.web.board import Board

MOST_FINDINGS = 200
_MARKS = {State.ANCHORED: "good", State.CONSISTENT: "unknown", State.BROKEN: "bad"}


def add_audit_checks(routes: Blueprint, board: Board) -> None:
    checks = _AuditChecks(board)
    routes.post("/audit/verify")(checks.verify)
    routes.post("/audit/reconcile")(checks.reconcile)


class _AuditChecks:
    def __init__(self, board: Board) -> None:
        self._board, self._context = board, board.services.context
        self._is_checking = Lock()

    def verify(self) -> Response:
        """Verify all logs of this party, and show how far each can be relied on."""
        with self._alone():
            keys = self._board.services.record_keys()
            found = self._context.read(lambda tx: verify_for_request(tx, keys), of_one_moment=True)
        return self._board.show(
            "audit/verified.html", reviews=self._board.queries.reviews(), logs=found, has_keys=keys is not None,
            marks=_MARKS, conclusion=_conclusion(found),
        )  # fmt: skip

    def reconcile(self) -> Response:
        """Compare the log with a party with the file that it has sent, or with what it hands out now. Show what both
        say about each message."""
        with self._alone():
            other = check_party_id(request.form.get("party", "").strip(), "party")
            text = _file()
            found = compared(self._context, other, text) if text else compared_by_asking(self._board.services, other)
        counts = Counter(one.outcome for one in found)
        rest = [one for one in found if one.outcome is not Outcome.AGREED]
        rest.sort(key=lambda one: not one.accused)
        return self._board.show(
            "audit/compared.html", reviews=self._board.queries.reviews(), other=other, total=len(found),
            counts={one.value: counts[one] for one in Outcome if counts[one]}, rest=rest[:MOST_FINDINGS],
            rest_total=len(rest), accused=sorted({party for one in found for party in one.accused}), mark=_mark_of,
            has_file=bool(text),
        )  # fmt: skip

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Raise PermissionDenied; Busy while somebody else has a record checked."""
        self._board.check_may("audit", "the record (audit)")
        if not self._is_checking.acquire(blocking=False):
            raise Busy("this server is checking its record for somebody else; try again in a minute")
        try:
            yield
        finally:
            self._is_checking.release()


def _file() -> str:
    """Return the text of the file; empty if none was chosen."""
    given = request.files.get("file")
    content = given.read() if given is not None else b""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest("file: is no text, so it is not what fate_flow audit prove writes") from error


def _conclusion(found: Sequence[LogReport]) -> tuple[str, str]:
    """Return what all reports say together: a mark, and a sentence."""
    broken = [one for one in found if one.state is State.BROKEN]
    if broken:
        names = ", ".join(f"{one.log} (epoch {one.epoch})" for one in broken)
        return "bad", f"Broken: {names}. Keep a copy of the database before anything else (docs/audit.md)."
    if not found:
        return "unknown", "Nothing is recorded here."
    if all(one.state is State.ANCHORED for one in found):
        return "good", "Every log is as it was signed, and other parties hold it."
    return "unknown", "Every log is consistent in itself; not all of them are held by another party yet."


def _mark_of(one: Finding) -> str:
    return "bad" if one.accused else "unknown"
