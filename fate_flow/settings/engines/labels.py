"""What the labels that jobs name stand for on one engine: `engines.NAME.labels`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.quotas.queues import QUEUE, QUEUE_IS
from fate_flow.settings.reading.section import Section

T = TypeVar("T")


def read_labels(section: Section, meaning: Callable[[Section, str], T]) -> Mapping[str, T]:
    """Return the labels of an engine with what each stands for there, which `meaning` reads. Raises BadSettings."""
    if section.get("labels") is None:
        return {}
    one = section.section("labels")
    found = {}
    for word in one.names():
        found[_checked(word, one.name(str(word)))] = meaning(one, word)
    one.refuse_others()
    return found


def read_own_labels(section: Section) -> Mapping[str, None]:
    """Return the labels of an engine that is one machine: it has them, and they stand for nothing else."""
    name, given = section.name("labels"), section.get("labels", [])
    if not isinstance(given, list):
        raise BadSettings(f"{name}: {given!r} is not a list of labels that this machine has")
    return {_checked(one, name): None for one in given}


def _checked(word: Any, name: str) -> str:
    if not isinstance(word, str) or not QUEUE.fullmatch(word):
        raise BadSettings(f"{name}: {word!r} is not a label: {QUEUE_IS}")
    return word
