"""What may go wrong, how often, and how often it did."""

from __future__ import annotations

from dataclasses import dataclass


class Crash(BaseException):
    """The process that carries this out dies here; no `except Exception` of ours may survive it."""


@dataclass(frozen=True)
class Faults:
    """Probabilities of what may go wrong with each thing that happens. Requests and replies are drawn for apart."""

    lose_request: float = 0.0
    lose_reply: float = 0.0
    late_request: float = 0.0    # it arrives after others that were sent later, perhaps when nobody waits any more
    late_reply: float = 0.0
    repeat_request: float = 0.0  # a copy arrives later, out of order
    repeat_reply: float = 0.0
    lose_wakeup: float = 0.0     # a wake-up between processes of one server
    delay: int = 5               # milliseconds at most, ten times that now and then
    crash: float = 0.0           # of a process, for each transaction: at a write of it, at its commit, or after it
    fail_task: float = 0.0
    kill_worker: float = 0.0


CALM = Faults()


def rough(rate: float, delay: int, crash: float, broken: float = 0.0) -> Faults:
    """All of the network at the same rate; `broken`: how many workers do not succeed."""
    return Faults(
        lose_request=rate, lose_reply=rate, late_request=rate, late_reply=rate, repeat_request=rate,
        repeat_reply=rate, lose_wakeup=rate, delay=delay, crash=crash, fail_task=broken, kill_worker=broken / 2,
    )  # fmt: skip
