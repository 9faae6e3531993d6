"""Rows in portions that one statement may have: a database refuses a statement that is too long, whoever wrote its
texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Row = tuple[str | int, ...]


def portions(rows: Iterable[Row], most_rows: int, most_characters: int) -> Iterator[list[Row]]:
    """Yield the rows in order, at most so many at once, and with texts of at most so many characters together; a row
    whose texts are longer alone comes alone."""
    some, size = list[Row](), 0
    for row in rows:
        length = sum(len(one) for one in row if isinstance(one, str))
        if some and (len(some) == most_rows or size + length > most_characters):
            yield some
            some, size = [], 0
        some.append(row)
        size += length
    if some:
        yield some
