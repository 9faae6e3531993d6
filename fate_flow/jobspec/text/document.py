"""Read a document of a client or another party: each value has its path, and problems are collected on the way."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from math import isfinite
from typing import Any, NamedTuple, TypeGuard, TypeVar

from fate_flow.core.model.document import AS_IN_FATE_V1, Paths
from fate_flow.core.model.errors import BadDocument, BadRequest
from fate_flow.core.model.grammar import shown, shown_key

T = TypeVar("T")

MAX_DEPTH = 64
MAX_VALUES = 100_000
MAX_TEXT = 4_000_000        # characters, keys and texts together
MAX_WHOLE = 2**31 - 1
MAX_WARNINGS = 100
_MOST_HINTS = 100
_LONGEST_TYPO = 60      # characters of a key that are compared with the known keys


@dataclass
class Findings:
    """The problems and warnings of a reading so far."""

    strict: bool
    problems: list[BadDocument] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)      # in order, each once
    paths: Paths = AS_IN_FATE_V1                                 # translates paths of nodes into those to show

    def warn(self, warning: str) -> None:
        self.warnings[warning] = None

    @property
    def may_hint(self) -> bool:
        """Return whether there are few problems so far: finding the intended key takes time."""
        return len(self.problems) + len(self.warnings) < _MOST_HINTS

    def short_warnings(self) -> tuple[str, ...]:
        """Return the warnings; if there are too many, the first ones and the number of the others."""
        found = tuple(self.warnings)
        more = len(found) - MAX_WARNINGS
        return found if more <= 0 else (*found[:MAX_WARNINGS], f"... and {more} more")


_Place = str | tuple[Any, str | int]
"""A path, or (the place of the value around, the key of an object or the place in a list): the text of a path is made
only if it is needed."""


class Node(NamedTuple):
    """One value of a document, its place there, and the findings to which its problems are added.

    It is a tuple, since a reading makes a thousand of them: to make a frozen dataclass takes three times as long.
    `path` is the place that the reader looks at, `shown_path` the path in the document that the user wrote."""

    value: Any
    place: _Place
    findings: Findings

    @property
    def is_given(self) -> bool:
        return self.value is not None

    @property
    def path(self) -> str:
        return _path_of(self.place)

    @property
    def shown_path(self) -> str:
        return self.findings.paths.of(self.path)

    def at(self, key: str) -> Node:
        value = self.value
        inside = value.get(key) if value is not None and _is_mapping(value) else None
        return Node(inside, (self.place, key), self.findings)

    def members(self) -> dict[str, Node]:
        """Return the members of an object; add a problem for any other value."""
        if not self.is_given or not self.is_object():
            return {}
        return {key: self.at(key) for key in self.value}

    def elements(self) -> list[Node]:
        """Return the elements of a list; add a problem for any other value."""
        if not self.is_given:
            return []
        if not isinstance(self.value, list):
            self.wrong(f"{shown(self.value)} is not a list")
            return []
        return [self.element(place) for place in range(len(self.value))]

    def element(self, place: int) -> Node:
        """Return an element of a list."""
        return Node(self.value[place], (self.place, place), self.findings)

    def is_object(self) -> bool:
        """Return whether the value is an object; add a problem if it is not."""
        if _is_mapping(self.value):
            return True
        self.wrong(f"{shown(self.value)} is not an object")
        return False

    def needed(self) -> bool:
        """Return whether the value is given; add a problem if it is not."""
        if not self.is_given:
            self.wrong("is missing")
        return self.is_given

    def checked(self, check: Callable[[object, str], T]) -> T | None:
        """Return the value as a check of the grammar returns it; None, with a problem, if the check fails."""
        if not self.needed():
            return None
        try:
            return check(self.value, "")     # most values are right: their paths need not be made
        except BadRequest:
            pass
        try:
            return check(self.value, self.path)
        except BadRequest as error:
            self.wrong(error.message.removeprefix(f"{self.path}: "))
            return None

    def whole(self, minimum: int, what: str) -> int | None:
        """Return a whole number, given as a number or as text; None, with a problem, for any other value."""
        number = _as_whole(self.value)
        if number is None or number < minimum:
            self.wrong(f"{shown(self.value)} is not {what}")
            return None
        if number > MAX_WHOLE:
            self.wrong(f"{shown(self.value)} is more than {MAX_WHOLE}")
            return None
        return number

    def only(self, known: Collection[str], meant: Collection[str] = ()) -> None:
        """Report the keys that are ignored, each with the key of `meant` that was probably intended.

        Add a problem if the value is not an object."""
        for key, inside in self.members().items():
            if inside.is_given and key not in known:
                inside.ignored(f"is not known{inside.nearest(key, meant)}")

    def nothing_but(self, known: Collection[str]) -> None:
        """Add a problem for each unknown key, with the one that was probably intended."""
        for key, inside in self.members().items():
            if inside.is_given and key not in known:
                inside.unknown(key, known)

    def unknown(self, key: str, known: Collection[str]) -> None:
        """Add a problem for an unknown key, with the one that was probably intended, else with all known keys."""
        others = f"; known here: {', '.join(known) or 'none'}"
        self.wrong(f"is not known{self.nearest(key, known) or others if self.findings.may_hint else ''}")

    def nearest(self, key: str, meant: Collection[str]) -> str:
        """Return a hint at the key that was probably intended; "" if none is close."""
        return nearest(key, meant) if self.findings.may_hint else ""

    def wrong(self, problem: str) -> None:
        self.findings.problems.append(BadDocument(self.shown_path, problem))

    def ignored(self, why: str = "is not known") -> None:
        """Report that the value is ignored."""
        self.doubtful(why, "it is ignored")

    def doubtful(self, what: str, consequence: str = "") -> None:
        """Report a probable mistake: a problem in a strict reading, else a warning with its consequence."""
        if self.findings.strict:
            self.wrong(what)
        else:
            self.findings.warn(f"{self.shown_path}: {what}" + (f"; {consequence}" if consequence else ""))

    def without_effect(self, why: str) -> None:
        """Report that the key is known, but has no effect here."""
        self.findings.warn(f"{self.shown_path}: has no effect: {why}")


def nearest(key: str, meant: Collection[str]) -> str:
    """Return a hint at the key that was probably intended; "" if none is close."""
    close = get_close_matches(key[:_LONGEST_TYPO], meant, 1)
    return f"; did you mean {close[0]}" if close else ""


_DIGITS = re.compile(r"[0-9]{1,12}")


def _as_whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else None


_PLAIN = (str, int, float)
"""Values that have no others inside."""


@dataclass
class _Budget:
    """The remaining size that a document may have."""

    values: int = MAX_VALUES
    text: int = MAX_TEXT


def size_of(document: Node) -> int | None:
    """Return the number of values in a document; None, with a problem, if it is not JSON or too large."""
    budget = _Budget()
    pending: list[tuple[Any, _Place, int]] = [(document.value, document.place, 0)]
    while pending:
        value, place, depth = pending.pop()
        problem = _problem_with_value(value, depth, budget)
        if problem:
            document._replace(place=place).wrong(problem)
            return None
        if isinstance(value, list):
            pending += [(inside, (place, number), depth + 1) for number, inside in enumerate(value)]
        elif not isinstance(value, _PLAIN) and _is_mapping(value):
            # A key is text: an object with any other key is refused before its members are looked at.
            pending += [(inside, (place, key), depth + 1) for key, inside in value.items()]
    return MAX_VALUES - budget.values


def _problem_with_value(value: object, depth: int, budget: _Budget) -> str:
    if depth > MAX_DEPTH:
        return f"is more than {MAX_DEPTH} levels deep"
    if value is None or value is True or value is False:
        return ""
    texts: Collection[object] = ()
    if isinstance(value, str):
        texts = (value,)
    elif isinstance(value, list):
        budget.values -= len(value)
    elif not isinstance(value, _PLAIN) and _is_mapping(value):
        budget.values -= len(value)
        texts = value.keys()
    for text in texts:
        budget.text -= len(text) if isinstance(text, str) else 0
    if budget.values < 0 or budget.text < 0:
        return f"is too big: a document has at most {MAX_VALUES} values and {MAX_TEXT} characters"
    for text in texts:
        if not _is_text(text):
            return f"{shown(text)} is not text"
    return "" if _is_json_kind(value) else f"{shown(value)} is not JSON"


def _is_mapping(value: object) -> TypeGuard[Mapping[Any, Any]]:
    """Return whether it is an object. Most are dicts: to ask the abstract class takes ten times as long."""
    return type(value) is dict or isinstance(value, Mapping)


def _is_text(value: object) -> bool:
    """Return whether the text can be encoded: half of a surrogate pair, which JSON allows, cannot."""
    try:
        return isinstance(value, str) and (value.isascii() or value.encode() is not None)
    except UnicodeEncodeError:
        return False


def _is_json_kind(value: object) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, int):
        return value.bit_length() <= 1024      # Python itself refuses to print much longer numbers
    return value is None or isinstance(value, (str, list)) or _is_mapping(value)


def _path_of(place: _Place) -> str:
    parts: list[str] = []
    while not isinstance(place, str):
        place, key = place
        parts.append(f"[{key}]" if isinstance(key, int) else f".{shown_key(key)}")
    return (place + "".join(reversed(parts))).removeprefix(".")
