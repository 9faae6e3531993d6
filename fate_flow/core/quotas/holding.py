"""How much all jobs of one initiator may hold at a party at once: cores and GPUs, by its grants or by its quota."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from fate_flow.core.model.job import Claim


class Held(Enum):
    """What is limited: the name of the field of a claim, and of the key in the grants."""

    CORES = "cores"
    GPUS = "gpus"

    @property
    def share(self) -> str:
        """Return the key of its quota."""
        return f"{self.value}_share"

    @property
    def noun(self) -> str:
        return "core" if self is Held.CORES else "GPU"

    def of(self, claim: Claim) -> int:
        """Return how many of them the claim has."""
        return claim.cores if self is Held.CORES else claim.gpus


@dataclass(frozen=True)
class HoldLimit:
    """How many of them all jobs of an initiator may hold here at once, and how many more they may hold now."""

    what: Held
    most: int
    left: int                # less than 0: the limit was lowered
    is_granted: bool         # by the grants of the initiator, not by its quota

    def refuses(self, asked: Claim) -> bool:
        """Return whether the claim is beyond it. What asks for none of them never is."""
        return 0 < self.what.of(asked) > self.left


@dataclass(frozen=True)
class Left:
    """How much more the jobs of an initiator may hold: the limits that it has; without any, as much as there is."""

    limits: tuple[HoldLimit, ...] = ()

    def refusing(self, asked: Claim) -> HoldLimit | None:
        """Return the first limit that refuses the claim; None if it may be held."""
        return next((one for one in self.limits if one.refuses(asked)), None)

    def admits(self, asked: Claim) -> bool:
        return self.refusing(asked) is None

    def after(self, taken: Claim) -> Left:
        """Return what is left once this is held, too."""
        return Left(tuple(replace(one, left=one.left - one.what.of(taken)) for one in self.limits))

    def before(self, taken: Claim) -> Left:
        """Return what was left before this was taken."""
        return Left(tuple(replace(one, left=one.left + one.what.of(taken)) for one in self.limits))

    def cores_of(self, free: int) -> int:
        """Return how many of the free cores the jobs may hold."""
        return max(0, min((free, *(one.left for one in self.limits if one.what is Held.CORES))))


def sum_of(claims: Iterable[Claim]) -> Claim:
    """Return the cores, memory and GPUs of several claims together."""
    listed = list(claims)
    return Claim(
        sum(one.cores for one in listed), sum(one.memory for one in listed), gpus=sum(one.gpus for one in listed)
    )
