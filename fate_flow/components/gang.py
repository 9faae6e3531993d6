"""For programs of the user's own (component Command): who else works on this task, and messages to and from them.

    import os, sys
    sys.path.append(os.environ["FATE_FLOW_PYTHON_PATH"])
    from fate_flow.components.gang import join

    gang = join()
    if gang.rank == 0:
        parts = [gang.receive(rank) for rank in range(1, gang.size)]
    else:
        gang.send(0, b"what I found")

Ranks are those of the gang, over all parties. Messages are bytes, in order between any two ranks and per topic; they
go through the worker's own server, also to a worker of the same party. Needs Python 3.11 and nothing else. A new
version of the task begins with empty channels, and nothing of an older one reaches it. A worker that is replaced inside
its party (`max_failed_workers`) finds the channels as its predecessor left them: put FATE_FLOW_WORKER_ATTEMPT into the
topic, and tell it to whoever is to listen there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fate_flow.components.base.errors import ExchangeError
from fate_flow.components.base.exchange import Channel, open_http_channel
from fate_flow.core.model.spec import Party


@dataclass(frozen=True)
class Gang:
    """The ranked workers of a task at all parties, as one of them sees them."""

    rank: int | None                       # of this worker; None: it is spare
    parties: tuple[Party, ...]             # whose worker each rank is
    channel: Channel

    @property
    def size(self) -> int:
        return len(self.parties)

    def ranks_of(self, role: str) -> tuple[int, ...]:
        """The ranks of all workers at the parties of this role."""
        return tuple(rank for rank, party in enumerate(self.parties) if party.role == role)

    def send(self, to: int, message: bytes, topic: str = "gang") -> None:
        """Returns when the message is with the server of the receiver."""
        self.channel.push(f"{topic}.{self._me()}.{to}", self._party(to), message)

    def receive(self, frm: int, topic: str = "gang") -> bytes:
        """The next message of that rank; waits for it for as long as the task may run."""
        return self.channel.pop(f"{topic}.{frm}.{self._me()}", self._party(frm))

    def _me(self) -> int:
        if self.rank is None:
            raise ExchangeError("this worker is spare: it has no rank, and nobody speaks to it")
        return self.rank

    def _party(self, rank: int) -> Party:
        if not 0 <= rank < self.size:
            raise ExchangeError(f"rank {rank}: there are ranks 0 to {self.size - 1}")
        return self.parties[rank]


def join(environment: Mapping[str, str] = os.environ) -> Gang:
    """The gang of the worker with this environment. Raises KeyError in a process that is none."""
    listed: list[dict[str, Any]] = json.loads(Path(environment["FATE_FLOW_PEERS_FILE"]).read_text(encoding="utf-8"))
    rank = environment.get("FATE_FLOW_GANG_RANK")
    return Gang(
        rank=None if rank is None else int(rank),
        parties=tuple(Party(one["role"], one["party_id"]) for one in listed for _ in one["gang_ranks"]),
        channel=open_http_channel(environment["FATE_FLOW_EXCHANGE_URL"], environment["FATE_FLOW_EXCHANGE_TOKEN"]),
    )
