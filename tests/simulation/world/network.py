"""The network between parties: each request and each reply is lost, delayed, overtaken or doubled by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from fate_flow.services.use_cases.use_cases import UseCases
from tests.simulation.world.faults import Crash

if TYPE_CHECKING:
    from tests.simulation.world.party import Server
    from tests.simulation.world.process import Process
    from tests.simulation.world.world import World

T = TypeVar("T")

TIMEOUT = 1_500
"""Milliseconds after which nobody waits for a reply any more."""

_LATE = 6_000


@dataclass
class Call(Generic[T]):
    """One request to another party, and its reply.

    Exactly one of `answered` and `failed` is called; a reply that comes again, or too late, goes to `stray`."""

    world: World
    sender: Process
    source: str
    to: str
    text: str
    serve: Callable[[UseCases], T]
    answered: Callable[[T], None]
    failed: Callable[[str], None]
    stray: Callable[[T], None]
    is_over: bool = False

    def start(self) -> None:
        world, faults = self.world, self.world.faults
        world.asked(self.source, self.to)
        self.sender.at(world.now + TIMEOUT, lambda: self._fail("no answer in time"))
        if (self.source, self.to) in world.dead_routes:
            world.inject("no connection", f"{self.source}->{self.to} {self.text}")
            self.sender.at(world.later(), lambda: self._fail("connection refused"))
            return
        if self._happens(faults.repeat_request, "request repeated"):
            self._send(world.now + world.random.randint(1, _LATE))
        if self._is_cut(self.source, self.to) or self._happens(faults.lose_request, "request lost"):
            return
        when = world.later()
        if self._happens(faults.late_request, "request late"):
            when += world.random.randint(1, _LATE)
        self._send(when)

    def _send(self, when: int) -> None:
        self.world.under_way += 1
        self.world.at(when, self._deliver)

    def _deliver(self) -> None:
        self.world.under_way -= 1
        server = self.world.parties[self.to].any_server()
        if server is None:
            self.sender.at(self.world.later(), lambda: self._fail("connection refused"))
        else:
            server.http.at(self.world.now, lambda: self._serve(server))

    def _serve(self, server: Server) -> None:
        reply = self.serve(server.use_cases)
        if self._happens(self.world.faults.crash, "crash before the reply"):
            raise Crash
        self._send_back(reply)

    def _send_back(self, reply: T) -> None:
        world, faults = self.world, self.world.faults
        if self._happens(faults.repeat_reply, "reply repeated"):
            self.sender.at(world.now + world.random.randint(1, _LATE), lambda: self._arrive(reply))
        if self._is_cut(self.to, self.source) or self._happens(faults.lose_reply, "reply lost"):
            return
        when = world.later()
        if self._happens(faults.late_reply, "reply late"):
            when += world.random.randint(1, _LATE)
        self.sender.at(when, lambda: self._arrive(reply))

    def _arrive(self, reply: T) -> None:
        if self.is_over:
            self.stray(reply)
        else:
            self.is_over = True
            self.world.heartbeats(self.source, self.to)
            self.answered(reply)

    def _fail(self, why: str) -> None:
        if not self.is_over:
            self.is_over = True
            self.world.not_heard(self.source, self.to)
            self.failed(why)

    def _happens(self, probability: float, kind: str) -> bool:
        if not self.world.chance(probability):
            return False
        self.world.inject(kind, f"{self.source}->{self.to} {self.text}")
        return True

    def _is_cut(self, one: str, other: str) -> bool:
        if (one, other) not in self.world.cuts:
            return False
        self.world.inject("cut off", f"{one}->{other} {self.text}")
        return True
