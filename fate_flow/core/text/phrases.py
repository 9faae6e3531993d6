"""Small pieces of text."""

from __future__ import annotations


def ordinal(number: int) -> str:
    """Return `1st`, `2nd`, `3rd`, `4th`, `11th`, `21st`."""
    if 10 <= number % 100 <= 20:
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def counted(count: int, one: str, several: str = "") -> str:
    """Return the count with its noun: `1 job`, `2 jobs`. `several` is the plural if it is not `one` plus s."""
    return f"{count} {one if count == 1 else several or f'{one}s'}"


def sanitized(value: object, most: int) -> str:
    """Return text from outside in a form that every database can store, cut to `most` characters.

    Returns an empty text if `value` is not a string. Half surrogates, which JSON can express but UTF-8 cannot, and
    NUL characters become question marks."""
    text = value[:most] if isinstance(value, str) else ""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "?")
