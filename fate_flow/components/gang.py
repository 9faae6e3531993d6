"""For the user's own programs (component Command): the other workers of the task, and messages to and from them.

    import os, sys
    sys.path.append(os.environ["FATE_FLOW_PYTHON_PATH"])
    from fate_flow.components.gang import join

    gang = join()
    if gang.rank == 0:
        parts = [gang.receive(rank) for rank in range(1, gang.size)]
    else:
        gang.send(0, b"what I found")

Ranks are those of the gang, over all parties. Messages are bytes; they arrive in order for each topic and pair of
ranks. They go through the worker's own server, also to a worker of the same party. This module needs only Python 3.11.

A new version of the task begins with empty channels, and gets no messages of an older version. A worker that is
replaced inside its party (`max_failed_workers`) finds the channels as its predecessor left them: put
FATE_FLOW_WORKER_ATTEMPT into the topic, and tell it to the receiver.
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
    """The ranked workers of a task at all parties, from the view of one worker."""

    rank: int | None                       # of this worker; None: it is spare
    parties: tuple[Party, ...]             # the party of each rank
    channel: Channel

    @property
    def size(self) -> int:
        return len(self.parties)

    def ranks_of(self, role: str) -> tuple[int, ...]:
        """Return the ranks of all workers at the parties of this role."""
        return tuple(rank for rank, party in enumerate(self.parties) if party.role == role)

    def send(self, to: int, message: bytes, topic: str = "gang") -> None:
        """Send a message; it has reached the server of the receiver when this returns."""
        self.channel.push(f"{topic}.{self._me()}.{to}", self._party(to), message)

    def receive(self, frm: int, topic: str = "gang") -> bytes:
        """Return the next message of rank `frm`; wait for it for as long as the task may run."""
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
    """Return the gang of the worker with this environment. Raises KeyError if the process is not a worker."""
    listed: list[dict[str, Any]] = json.loads(Path(environment["FATE_FLOW_PEERS_FILE"]).read_text(encoding="utf-8"))
    rank = environment.get("FATE_FLOW_GANG_RANK")
    return Gang(
        rank=None if rank is None else int(rank),
        parties=tuple(Party(one["role"], one["party_id"]) for one in listed for _ in one["gang_ranks"]),
        channel=open_http_channel(
            environment["FATE_FLOW_EXCHANGE_URL"], environment["FATE_FLOW_EXCHANGE_TOKEN"],
            environment.get("FATE_FLOW_EXCHANGE_SERVERS", ""),
        ),
    )
