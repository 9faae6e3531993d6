"""The hunt for mutants: which seed catches which, and by which rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from tests.simulation.chaos import Story, no_gc
from tests.simulation.mutants.table import MUTANTS
from tests.simulation.world.world import Violation

_MISTAKES = ("TypeError", "AttributeError", "NameError")


@dataclass(frozen=True)
class Caught:
    name: str
    seed: int = -1            # none caught it
    rule: str = ""

    @property
    def is_caught(self) -> bool:
        """By a rule; a mutant that no longer fits what it changes stumbles, and shows nothing."""
        return self.seed >= 0 and not any(mistake in self.rule for mistake in _MISTAKES)

    @property
    def text(self) -> str:
        missed = f"NOT CAUGHT by {MUTANTS[self.name].within} seeds"
        caught = ("" if self.is_caught else "A MISTAKE OF ITS OWN: ") + f"seed {self.seed}: {self.rule}"
        return f"{self.name}: " + (caught if self.seed >= 0 else missed)


def hunt(name: str) -> Caught:
    """The first seed that catches it."""
    mutant = MUTANTS[name]
    with mutant.patched():
        for seed in range(mutant.first, mutant.first + mutant.within):
            with no_gc():
                try:
                    # Most of these bugs have nothing to do with records.
                    Story(seed, mutant.store, keeps_record=seed % 4 == 0, **mutant.style).run()
                except Violation as error:
                    return Caught(name, seed, error.message)
    return Caught(name)


def hunt_all(names: Iterable[str], jobs: int) -> Iterator[Caught]:
    if jobs == 1:
        yield from map(hunt, names)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(hunt, names)
