"""Lay out the cells of a table for a given line width.

Columns are side by side as long as there is space. Without enough space, in this order: the gaps get smaller, empty
columns are left out, and the last column, which has the long texts, is broken between words. If too little space is
left for the last column or for its longest word, or if the table becomes shorter that way, the last column goes below
each row on lines of its own, and the other columns are broken between words. The first column identifies the row and is
never broken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells

_GAP, _NARROW_GAP = 3, 2
_LEAST_TEXT = 30           # with less space than this, the last column goes below the rows
_LEAST = 6                 # the smallest width of a column
_BELOW = " " * 4

Cells = Sequence[str]


@dataclass(frozen=True)
class Layout:
    """The lines of a table."""

    head: tuple[str, ...]
    body: tuple[str, ...]


def lay_out(headers: Cells, rows: Sequence[Cells], width: int | None = None) -> Layout:
    """Return the layout. `width`: characters in a line; None: no limit."""
    table = [list(headers), *map(list, rows)]
    natural = _widths(table)
    if width is None or _total(natural, _GAP) <= width:
        return _joined(table, natural, _GAP)
    if _total(natural, _NARROW_GAP) <= width:
        return _joined(table, natural, _NARROW_GAP)
    table = _without_empty_columns(table)
    *fixed, text = _widths(table)
    if not fixed:
        return _joined(table, [width], _NARROW_GAP)
    upper = [row[:-1] for row in table]
    longest = max(cell_len(word) for row in table for word in row[-1].split(" "))
    needed = min(text, max(_LEAST_TEXT, min(longest, width - len(_BELOW))))
    beside = _narrowed(fixed, width - needed - _NARROW_GAP, _longest_parts(upper))
    left = width - _total(beside, _NARROW_GAP) - _NARROW_GAP
    by_parts = _narrowed(fixed, width, _longest_parts(upper))
    widths = _narrowed(by_parts, width, [_LEAST] * len(by_parts))
    below = _joined(upper, widths, _NARROW_GAP, [row[-1] for row in table[1:]], width)
    if needed > left:
        return below
    found = _joined(table, [*beside, min(text, left)], _NARROW_GAP)
    return found if len(found.body) <= len(below.body) else below


def wrap(text: str, width: int) -> list[str]:
    """Break the text into lines of at most `width` characters, between words if possible; return at least one line."""
    lines = [""]
    for word in text.split(" "):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(longer) <= width:
            lines[-1] = longer
            continue
        first, *more = chop_cells(word, width) or [""]
        lines[len(lines) - (not lines[-1]):] = [first, *more]
    return lines


def _joined(
    table: Sequence[Cells], widths: Sequence[int], gap: int, below: Sequence[str] = (), width: int = 0
) -> Layout:
    head, *rows = (tuple(_lines(row, widths, gap)) for row in table)
    body: list[str] = []
    for place, row in enumerate(rows):
        body += row
        if below and below[place]:
            body += (f"{_BELOW}{line}" for line in wrap(below[place], max(_LEAST, width - len(_BELOW))))
    return Layout(head, tuple(body))


def _lines(row: Cells, widths: Sequence[int], gap: int) -> Iterator[str]:
    cells = [wrap(cell, width) for cell, width in zip(row, widths, strict=True)]
    for place in range(max(map(len, cells), default=0)):
        pieces = [cell[place] if place < len(cell) else "" for cell in cells]
        padded = (piece + " " * (width - cell_len(piece)) for piece, width in zip(pieces, widths, strict=True))
        yield (" " * gap).join(padded).rstrip()


def _narrowed(widths: Sequence[int], width: int, least: Sequence[int]) -> list[int]:
    """Return smaller column widths that fit into `width`, as far as possible.

    Columns are narrowed one after the other, the one with the most spare space first; none below its least width, and
    the first column not at all."""
    found = list(widths)
    spare = [max(0, have - max(_LEAST, need)) for have, need in zip(widths, least, strict=True)]
    for place in sorted(range(1, len(found)), key=lambda place: -spare[place]):
        found[place] -= min(spare[place], max(0, _total(found, _NARROW_GAP) - width))
    return found


def _longest_parts(table: Sequence[Cells]) -> list[int]:
    """Return the length of the longest word of each column."""
    return [max(cell_len(word) for cell in column for word in cell.split(" ")) for column in zip(*table, strict=True)]


def _without_empty_columns(table: Sequence[Cells]) -> list[list[str]]:
    """Remove the empty columns, except the first one: a table needs a column."""
    keep = [place for place in range(len(table[0])) if place == 0 or any(row[place] for row in table[1:])]
    return [[row[place] for place in keep] for row in table]


def _widths(table: Sequence[Cells]) -> list[int]:
    return [max(map(cell_len, column)) for column in zip(*table, strict=True)]


def _total(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * max(0, len(widths) - 1)
