"""What a page shows of metrics: charts, each with its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Point = tuple[float, float | None]
"""None: a value that is no finite number; the line has a gap there."""


@dataclass(frozen=True)
class Line:
    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Chart:
    """Lines over one axis. `has_diagonal`: with the line of a guess, for ROC."""

    x_name: str
    y_name: str
    lines: tuple[Line, ...]
    has_diagonal: bool = False
    is_from_zero: bool = False               # the axis of the values begins at zero, also if none is that small


@dataclass(frozen=True)
class Bars:
    value_name: str
    rows: tuple[tuple[str, float], ...]      # in the order of the drawing


@dataclass(frozen=True)
class Matrix:
    """A confusion matrix at one threshold."""

    threshold: float | None
    true_positive: float
    false_positive: float
    false_negative: float
    true_negative: float


@dataclass(frozen=True)
class Table:
    """Rows of text. `total`: of all rows, of which these are a part."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: int
    is_end: bool = False                     # the rows are the last ones, not the first

    @property
    def is_whole(self) -> bool:
        return len(self.rows) == self.total


@dataclass(frozen=True)
class Block:
    """One thing to look at: a drawing if there is one, and the table that says the same."""

    title: str
    table: Table
    drawing: object = None                   # one of those that `drawing.py` lays out
    note: str = ""
    sources: tuple[tuple[str, str], ...] = field(default=())     # namespace and name of the metrics it is made of


MOST_ROWS = 200


def table_of(columns: Sequence[str], rows: Sequence[Sequence[object]], *, is_end: bool = False) -> Table:
    """Return a table with the first rows, or with the last."""
    some = rows[-MOST_ROWS:] if is_end else rows[:MOST_ROWS]
    return Table(tuple(columns), tuple(tuple(map(as_text, row)) for row in some), len(rows), is_end)


def as_text(value: object) -> str:
    """Return a value of a cell; a number with as many digits as people compare."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
