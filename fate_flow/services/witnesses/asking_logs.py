"""Asking another party for the log that it keeps with this one, to compare both.

The other party may be hostile: what it sends is bounded in entries, bytes and time, and counts for nothing before its
signatures were checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fate_flow.core.model.errors import OperationFailed, TooLarge
from fate_flow.core.model.spec import Party
from fate_flow.core.record.checkpoint import read_checkpoint
from fate_flow.core.record.note import BadNote, read_note
from fate_flow.core.record.offline.bundle import BadBundle
from fate_flow.core.wire.v1.paths import RECORD_LOG
from fate_flow.core.wire.v1.plain_v1 import NO_SUCH_ROUTE
from fate_flow.core.wire.v1.witnessing import AskedPart, LogPart, part_in
from fate_flow.services.record.asking import Ask, why_not_said
from fate_flow.services.record.reconciling import WholeEpoch

MOST_ENTRIES, MOST_BYTES = 200_000, 256 << 20
MOST_SECONDS = 120.0         # for all parts together
_LEAST = 50                  # entries of each part but the last one of an epoch


class LogQuestions:
    """The questions for the log of one party. `monotonic` returns seconds that only grow."""

    def __init__(self, ask: Ask, party_id: str, monotonic: Callable[[], float]) -> None:
        self._ask, self._party_id, self._monotonic = ask, party_id, monotonic
        self._until = monotonic() + MOST_SECONDS
        self._entries = self._bytes = 0

    def log(self) -> tuple[WholeEpoch, ...]:
        """Return all epochs of the log, the oldest first. Raise OperationFailed if the party does not hand it out;
        TooLarge; BadBundle if a part is missing."""
        first = self._part(AskedPart())
        if not first.epochs:
            raise OperationFailed(f"party {self._party_id} has signed nothing of its log with this party yet")
        return tuple(self._epoch(number, first if number == first.epoch else None) for number in first.epochs)

    def _epoch(self, number: int, part: LogPart | None) -> WholeEpoch:
        part = part or self._part(AskedPart(number))
        try:
            note = read_note(part.note)
            size = read_checkpoint(note.text).size
        except BadNote as error:
            raise BadBundle(f"epoch {number}: {error}") from error
        found: list[bytes] = []
        while True:
            left = size - len(found)
            found += self._checked(part, number, len(found), left)
            if len(found) == size:
                return WholeEpoch(note, found)
            part = self._part(AskedPart(number, len(found)))     # its note may be a newer one: the log grows

    def _checked(self, part: LogPart, number: int, first: int, left: int) -> Iterator[bytes]:
        if part.epoch != number or len(part.entries) < min(left, _LEAST):
            raise BadBundle(f"party {self._party_id} does not hand out entry {first} of epoch {number}")
        try:
            found = [one.encode() for one in part.entries[:left]]
        except UnicodeEncodeError as error:
            raise BadBundle(f"party {self._party_id} hands out entries that are no text: {error.reason}") from error
        self._entries += len(found)
        self._bytes += sum(map(len, found))
        if self._entries > MOST_ENTRIES or self._bytes > MOST_BYTES:
            raise TooLarge(
                f"the log of party {self._party_id} has more than {MOST_ENTRIES} entries or {MOST_BYTES >> 20} MiB: "
                "compare it by a file (fate_flow audit prove -p, there)"
            )
        yield from found

    def _part(self, asked: AskedPart) -> LogPart:
        if self._monotonic() > self._until:
            raise OperationFailed(
                f"party {self._party_id} has not handed out its log within {MOST_SECONDS:.0f} s; "
                "compare it by a file (fate_flow audit prove -p, there)"
            )
        answer = self._ask(Party("host", self._party_id), RECORD_LOG, asked.as_body())
        found = part_in(answer)
        if found is None:
            why = why_not_said(answer)
            if answer.retcode == NO_SUCH_ROUTE:
                why = "its release cannot; compare it by a file (fate_flow audit prove -p, there)"
            raise OperationFailed(f"party {self._party_id} does not hand out its log: {why}")
        return found
