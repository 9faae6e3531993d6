"""Asking a server again that could say neither yes nor no, as its answer tells people to do.

A server that found no turn to write, or was not called back within seconds, since the machine stood still for so long,
refuses what it was asked and has taken nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tests.kit.waiting import eventually

_OF_THE_MOMENT = ("the database refused for the moment", "answer in time")

T = TypeVar("T")


def decided(ask: Callable[[], T], said: Callable[[T], str]) -> T:
    """The first answer whose text is no refusal that holds for the moment alone."""
    answers: list[T] = []

    def is_decided() -> bool:
        answers.append(ask())
        return not any(one in said(answers[-1]) for one in _OF_THE_MOMENT)

    eventually(is_decided, lambda: said(answers[-1]))
    return answers[-1]
