"""One process of a server: it runs, is stopped (SIGSTOP), or is dead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from tests.simulation.world.faults import Crash

if TYPE_CHECKING:
    from tests.simulation.world.world import World

T = TypeVar("T")


class OnDeath(Protocol):
    def __call__(self) -> None: ...


class Process:
    """What reaches it while it is stopped waits until it goes on; what is meant for a dead one is lost."""

    def __init__(self, world: World, name: str, on_death: OnDeath) -> None:
        self.name = name
        self.life = 0
        self.is_up = False
        self.is_stopped = False
        self._world = world
        self._on_death = on_death
        self._waiting: deque[Callable[[], object]] = deque()

    def begin(self) -> None:
        self.life += 1
        self.is_up, self.is_stopped = True, False
        self._waiting.clear()

    def end(self) -> None:
        """Killed: nothing that it was about to do happens."""
        if self.is_up:
            self.is_up = False
            self._waiting.clear()
            self._on_death()

    def halt(self) -> None:
        self.is_stopped = True

    def go_on(self) -> None:
        self.is_stopped = False
        while self._waiting:
            self.at(self._world.now, self._waiting.popleft())

    def at(self, when: int, act: Callable[[], object]) -> None:
        """Carry this out then, in this life of the process, or as soon as it goes on."""
        life = self.life
        self._world.at(when, lambda: self._arrive(life, act))

    def _arrive(self, life: int, act: Callable[[], object]) -> None:
        if life != self.life or not self.is_up:
            return
        if self.is_stopped:
            self._waiting.append(act)
        else:
            self.run(act)

    def run(self, act: Callable[[], T]) -> T | None:
        """What it answers; None when the process is not there for it, or dies of it."""
        if not self.is_up or self.is_stopped:
            return None
        try:
            return act()
        except Crash:
            self._world.inject("crash", self.name)
            self.end()
            return None
