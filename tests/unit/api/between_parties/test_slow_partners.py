"""Pushes that a partner answers late, or that one worker makes in numbers, leave slots for the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from flask import Flask

from fate_flow.api.between_parties.exchange import ExchangeEnvelope, ForwardReply, worker_blueprint
from fate_flow.api.between_parties.slots import SharedSlots, threads_for
from fate_flow.api.http.errors import Api, register_apis
from fate_flow.core.wire.v1.chunks import Chunk
from fate_flow.relay.spool import Spool, SpoolLimits
from fate_flow.relay.spool_session import Session
from tests.kit.waiting import eventually

SLOTS = 8
MOST = SLOTS - 1              # of one party, or of one worker
SLOW, SLOW_TOO, HONEST = "10000", "10001", "10002"
SEATS = (("guest", "9999"), ("arbiter", "9999"), ("host", "9999"))
PEERS = (*SEATS, *(("host", party_id) for party_id in (SLOW, SLOW_TOO, HONEST)))
SECONDS = 90.0

Push = Callable[[str, str], int]


class World:
    """Some parties answer no push before the end. `hanging`: the parties whose pushes are on their way."""

    def __init__(self, folder: Path, slow: tuple[str, ...]) -> None:
        self._slow = slow
        self._end = threading.Event()
        self._threads: list[threading.Thread] = []
        self.hanging: list[str] = []
        spool = Spool(folder, SpoolLimits(), lambda: None)
        for role, party_id in SEATS:
            spool.open(Session("20260101120000", "20260101120000_psi_0", 0, "a1b2c3d4", role, party_id), PEERS, role)
        self._app = Flask("exchange")
        register_apis(self._app, Api(ExchangeEnvelope(), (worker_blueprint(spool, self._forward, SLOTS),)))

    def _forward(self, _session: Session, _role: str, party_id: str, _chunk: Chunk, _data: bytes) -> ForwardReply:
        if party_id in self._slow:
            self.hanging.append(party_id)
            assert self._end.wait(SECONDS)
        return ForwardReply(200)

    def push(self, worker: str, party_id: str) -> int:
        """The status of a push by the worker with this token."""
        query = f"topic=t&role=host&party_id={party_id}&seq=0&last=1"
        return self._app.test_client().post(
            f"/v1/exchange/push?{query}", data=b"x", headers={"Authorization": f"Bearer {worker}"},
        ).status_code  # fmt: skip

    def hang(self, worker: str, party_id: str, count: int) -> None:
        """Begin so many pushes that do not end."""
        whole = len(self.hanging) + count
        for _ in range(count):
            self._threads.append(threading.Thread(target=self.push, args=(worker, party_id)))
            self._threads[-1].start()
        eventually(lambda: len(self.hanging) == whole, "pushes on their way")

    def close(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, (SLOW, SLOW_TOO))
    yield made
    made.close()


def test_a_slow_partner_has_half_of_the_slots_and_pushes_to_others_go_on(world: World) -> None:
    world.hang("guest", SLOW, MOST)
    assert world.push("arbiter", SLOW) == 503
    assert world.push("arbiter", HONEST) == 200


def test_slow_partners_together_leave_slots(world: World) -> None:
    world.hang("guest", SLOW, MOST)
    world.hang("arbiter", SLOW_TOO, MOST // 2 + 1)
    assert [world.push("host", one) for one in (SLOW, SLOW_TOO)] == [503, 503]
    assert world.push("host", HONEST) == 200


def test_one_worker_that_pushes_to_many_leaves_slots_for_another(world: World) -> None:
    world.hang("guest", SLOW, MOST - 1)
    world.hang("guest", SLOW_TOO, 1)
    assert world.push("guest", HONEST) == 503
    assert world.push("arbiter", HONEST) == 200


def test_nobody_takes_the_last_slots() -> None:
    slots, had = SharedSlots(30), []
    with ExitStack() as stack:
        for user in ("first", "second", "third", "fourth"):
            count = 0
            while stack.enter_context(slots.take(user)):
                count += 1
            had.append(count)
    assert had == [15, 8, 4, 2]
    with slots.take("fifth", "somebody else") as taken:          # all are free again
        assert taken


def test_waiting_pops_and_pushes_leave_threads() -> None:
    assert threads_for(SLOTS) > SLOTS + 2 * MOST
