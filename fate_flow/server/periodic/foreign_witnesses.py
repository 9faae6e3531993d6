"""A thread that has the own log cosigned by the witnesses of the configuration. It is not that of the other parties: a
witness that hangs holds up nobody but the others of its kind, for seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

import requests

from fate_flow.core.wire.v1.envelope import DEST_PARTY_ID
from fate_flow.peers.peer_http import PeerHttp
from fate_flow.server.periodic.periodic_work import PeriodicWork
from fate_flow.services.witnesses.foreign import ForeignOffer, ForeignWitnesses
from fate_flow.settings.recording.record import RecordWitness

_STAND_BY_SECONDS, _LOOK_SECONDS, _LEAST_SECONDS = 2.0, 2.0, 0.2
_SECONDS = 5.0               # for an answer
_LONGEST_ANSWER = 100_000    # bytes
_AT_ONCE = 4

Send = Callable[[ForeignOffer], tuple[int, str]]
"""Returns the HTTP status and the text of the answer; status 0: there was none."""


class ForeignRounds(PeriodicWork):
    """Works in the process that schedules, as the thread that signs does."""

    def __init__(
        self, witnesses: ForeignWitnesses, send: Send, may_work: Callable[[], bool], close: Callable[[], None]
    ) -> None:
        """The thread calls `close` at its end."""
        failure = "foreign witnesses could not be asked to cosign the record; it is tried again"
        super().__init__("foreign-witnesses", failure, self._end, again=_STAND_BY_SECONDS)
        self._witnesses, self._send, self._may_work, self._close_thread = witnesses, send, may_work, close
        self._pool = ThreadPoolExecutor(_AT_ONCE, "foreign-witness")
        witnesses.rouse = self.rouse

    def step(self) -> float:
        if not self._may_work():
            self._witnesses.stands_by()
            return _STAND_BY_SECONDS
        sent = {self._pool.submit(self._send, one): one for one in self._witnesses.due()}
        for done in as_completed(sent):
            self._witnesses.answered(sent[done], *done.result())     # in this thread, which has a database connection
        return max(_LEAST_SECONDS, self._witnesses.seconds_until_due(_LOOK_SECONDS))

    def _end(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._close_thread()


def sending_to(witnesses: Sequence[RecordWitness], seconds: float = _SECONDS) -> Send:
    """Return what sends checkpoints to these witnesses. An answer that takes longer than `seconds` is none."""
    http, places = PeerHttp(), {one.name: one for one in witnesses}

    def send(offer: ForeignOffer) -> tuple[int, str]:
        place = places[offer.name]
        head: Mapping[str, str] = {"Content-Type": "text/plain; charset=utf-8", DEST_PARTY_ID: ""}
        try:
            response = http.post(
                f"{place.url.rstrip('/')}/add-checkpoint", offer.text.encode(), head, seconds=seconds,
                most_bytes=_LONGEST_ANSWER, ca_file=place.ca_file,
            )  # fmt: skip
            return response.status, response.body.decode()
        except (requests.RequestException, ValueError):      # of which UnicodeDecodeError is one
            return 0, ""

    return send
