"""Small pieces of text."""

from __future__ import annotations


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    if 10 <= number % 100 <= 20:
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def counted(count: int, one: str, several: str = "") -> str:
    """`1 job`, `2 jobs`"""
    return f"{count} {one if count == 1 else several or f'{one}s'}"


def sanitized(value: object, most: int) -> str:
    """What somebody else sent as text, such as every database takes it: at most so many characters.

    Empty when it is no text. JSON can name halves of characters, which no encoding can write."""
    text = value[:most] if isinstance(value, str) else ""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "?")
