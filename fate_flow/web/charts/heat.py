"""Heat maps: numbers between -1 and 1 for pairs of names, such as correlations of columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.web.charts.tables import number_of
from fate_flow.web.charts.values import Block, table_of

MOST_DRAWN = 24
"""Rows and columns in a drawing; the table has more."""
CELL, NAMES = 44, 150
_LONGEST = 18


@dataclass(frozen=True)
class Heat:
    """`cells`: a row for each of the row names, with a number for each of the column names, or None."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class DrawnCell:
    x: int
    y: int
    text: str
    sign: str                    # plus or minus
    strength: float              # opacity of the fill: text has to stay readable on it


@dataclass(frozen=True)
class DrawnHeat:
    width: int
    height: int
    rows: tuple[tuple[int, str], ...]
    columns: tuple[tuple[int, str], ...]
    cells: tuple[DrawnCell, ...]
    row_count: int               # of all, also of those that are not drawn
    column_count: int

    @property
    def is_cut(self) -> bool:
        return (len(self.rows), len(self.columns)) != (self.row_count, self.column_count)


def is_correlation(value: Any) -> bool:
    """Return whether an object has, for several names, numbers between -1 and 1 for the same names."""
    if not isinstance(value, Mapping) or len(value) < 2:
        return False
    names = value.keys()
    return all(
        isinstance(row, Mapping) and row.keys() == names and all(_is_share(one) for one in row.values())
        for row in value.values()
    )


def heat_block(title: str, value: Mapping[str, Mapping[str, Any]], note: str = "") -> Block:
    """Return the map of an object of objects. Its rows are the outer names."""
    columns = tuple(dict.fromkeys(key for row in value.values() for key in row))
    cells = tuple(tuple(number_of(row.get(key)) for key in columns) for row in value.values())
    table = table_of(("", *columns), [(name, *row) for name, row in zip(value, cells, strict=True)])
    return Block(title, table, Heat(tuple(value), columns, cells), note)


def drawn_heat(heat: Heat) -> DrawnHeat:
    rows, columns = heat.rows[:MOST_DRAWN], heat.columns[:MOST_DRAWN]
    cells = tuple(
        DrawnCell(
            NAMES + across * CELL, down * CELL, f"{value:.2f}", "minus" if value < 0 else "plus",
            round(0.05 + 0.4 * min(1.0, abs(value)), 2),
        )
        for down, row in enumerate(heat.cells[:MOST_DRAWN])
        for across, value in enumerate(row[:MOST_DRAWN]) if value is not None
    )  # fmt: skip
    below = len(rows) * CELL
    return DrawnHeat(
        NAMES + len(columns) * CELL + 60, below + 110,
        tuple((at * CELL + CELL // 2 + 4, _short(name)) for at, name in enumerate(rows)),
        tuple((NAMES + at * CELL + CELL // 2, _short(name)) for at, name in enumerate(columns)), cells,
        len(heat.rows), len(heat.columns),
    )  # fmt: skip


def _is_share(value: Any) -> bool:
    found = number_of(value)
    return value is None or (found is not None and abs(found) <= 1.000001)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
