"""What is known of the connection to another party and of its connection back, and the texts about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.spec import Party
from fate_flow.core.text.phrases import sanitized

LONGEST_ERROR = 400
_MOST_SECONDS = 1e9


@dataclass(frozen=True)
class PeerTrouble:
    """A party that does not answer this server, or cannot reach it. Times are steady time (ms) of this server."""

    party_id: str
    silent_since: int = 0        # time of the first request that it did not answer; 0: it answers
    silence: str = ""            # the error of the last request to it
    cut_off_since: int = 0       # time of its first answer that it cannot reach this server; 0: it reaches it
    cut_off: str = ""            # the error of its last request to this server

    @property
    def is_over(self) -> bool:
        return not (self.silent_since or self.cut_off_since)

    def without_silence(self) -> PeerTrouble:
        return PeerTrouble(self.party_id, 0, "", self.cut_off_since, self.cut_off)

    def explain(self, party: Party, own: Party, now: int, limit: int | None = None) -> str:
        """Return text for people about the trouble.

        `party` is the seat of the other party, `own` the seat of this server. `limit`: the milliseconds of silence
        after which the party is given up."""
        seconds = max(0, now - (self.silent_since or self.cut_off_since)) // 1000
        if self.silent_since:
            said = f"{party} has not answered for {seconds} s"
            said += f" ({self.silence})" if self.silence else ""
        else:
            said = f"{party} cannot reach {own} ({', '.join(filter(None, [self.cut_off, f'for {seconds} s']))})"
        return said if limit is None else f"{said}; given up in {max(0, limit // 1000 - seconds)} s"


@dataclass(frozen=True)
class WayBack:
    """A party's statement that it cannot reach the server that sent the request."""

    seconds: float
    error: str

    def as_body(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "error": self.error}


def read_way_back(value: object) -> WayBack | None:
    """Read another party's statement, and replace values out of range by defaults; None if there is none."""
    if not isinstance(value, Mapping):
        return None
    given = value.get("seconds")
    seconds = given if isinstance(given, (int, float)) and 0 <= given < _MOST_SECONDS else 0
    return WayBack(float(seconds), sanitized(value.get("error"), LONGEST_ERROR))


@dataclass(frozen=True)
class HeartbeatReply:
    """A party's answer to the heartbeat of an initiator."""

    ended: Mapping[str, str]                     # jobs that are over or unknown there, with the reason
    way_back: WayBack | None = None              # None: it reaches the initiator, as far as it knows
    reports: tuple[Mapping[str, Any], ...] = ()  # reports of shares that it could not deliver otherwise

    def as_body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"ended": dict(self.ended)}
        if self.way_back is not None:
            body.update(way_back=self.way_back.as_body(), reports=list(self.reports))
        return body

    @property
    def is_new(self) -> bool:
        return bool(self.ended or self.way_back is not None or self.reports)


_MOST_REPORTS = 256


def read_heartbeat_reply(data: Mapping[str, Any]) -> HeartbeatReply:
    ended, reports = data.get("ended"), data.get("reports")
    listed = ended.items() if isinstance(ended, Mapping) else ()
    given = reports if isinstance(reports, list) else []
    return HeartbeatReply(
        {str(job_id): str(why) for job_id, why in listed},
        read_way_back(data.get("way_back")),
        tuple(one for one in given[:_MOST_REPORTS] if isinstance(one, Mapping)),
    )
