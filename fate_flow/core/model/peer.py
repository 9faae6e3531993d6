"""What is known of the connection to another party and of its connection back, and the texts about it."""

from __future__ import annotations

from dataclasses import dataclass

from fate_flow.core.model.spec import Party

LONGEST_ERROR = 400


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
