"""Where the parts of a drawing are, in the units of its view box. Templates write them as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.web.charts.heat import Heat, drawn_heat
from fate_flow.web.charts.trees import Tree, drawn_tree
from fate_flow.web.charts.values import Bars, Block, Chart, Line, Matrix, Point

WIDTH, HEIGHT = 480, 280
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 28, 46
SIZES = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": WIDTH - RIGHT, "top": TOP, "low": HEIGHT - BOTTOM}
MOST_POINTS = 600
"""Of a line; of more, the smallest and the largest of each part are drawn, so that no peak is lost."""
MOST_BARS = 40
BAR, BAR_LEFT = 22, 170
SIZES_OF_BARS = {"width": WIDTH, "left": BAR_LEFT, "bar": BAR, "most": MOST_BARS}
_TICKS = 5


@dataclass(frozen=True)
class Tick:
    at: float
    text: str


@dataclass(frozen=True)
class Drawn:
    """A chart, laid out. `paths`: name and path of each line; `dots`: where a line has one point alone."""

    paths: tuple[tuple[str, str], ...]
    dots: tuple[tuple[int, float, float], ...]       # number of the line, x, y
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    diagonal: str


@dataclass(frozen=True)
class DrawnBar:
    name: str
    text: str
    x: float
    width: float


def laid_out(block: Block) -> dict[str, Any]:
    """Return a block for templates, with its drawing laid out."""
    found: dict[str, Any] = {"block": block, "chart": None, "bars": (), "matrix": None, "heat": None, "tree": None}
    if isinstance(block.drawing, Chart):
        found["chart"] = drawn(block.drawing)
    elif isinstance(block.drawing, Bars):
        found["bars"] = drawn_bars(block.drawing)
    elif isinstance(block.drawing, Matrix):
        found["matrix"] = block.drawing
    elif isinstance(block.drawing, Heat):
        found["heat"] = drawn_heat(block.drawing)
    elif isinstance(block.drawing, Tree):
        found["tree"] = drawn_tree(block.drawing)
    return found


def drawn(chart: Chart) -> Drawn:
    lines = [Line(line.name, thinned(line.points)) for line in chart.lines]
    numbers = [(x, y) for line in lines for x, y in line.points if y is not None]
    low_x, high_x = _range([x for x, _ in numbers])
    low_y, high_y = _range([y for _, y in numbers])
    if chart.is_from_zero:
        low_y = min(low_y, 0.0)
    if chart.has_diagonal:
        low_x, high_x, low_y, high_y = 0.0, 1.0, 0.0, 1.0

    def at_x(x: float) -> float:
        return round(LEFT + (x - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT), 1)

    def at_y(y: float) -> float:
        return round(HEIGHT - BOTTOM - (y - low_y) / (high_y - low_y) * (HEIGHT - TOP - BOTTOM), 1)

    placed = [(line.name, [(at_x(x), None if y is None else at_y(y)) for x, y in line.points]) for line in lines]
    return Drawn(
        tuple((name, path_of(points)) for name, points in placed),
        tuple((number, x, y) for number, (_, points) in enumerate(placed) for x, y in lonely(points)),
        tuple(Tick(at_x(one), number_text(one)) for one in ticks(low_x, high_x)),
        tuple(Tick(at_y(one), number_text(one)) for one in ticks(low_y, high_y)),
        f"M{at_x(0)} {at_y(0)}L{at_x(1)} {at_y(1)}" if chart.has_diagonal else "",
    )  # fmt: skip


def drawn_bars(bars: Bars) -> tuple[DrawnBar, ...]:
    """Return the first bars, on a scale from zero; a negative value goes to the left."""
    rows = bars.rows[:MOST_BARS]
    low, high = min(0.0, *(value for _, value in rows)), max(0.0, *(value for _, value in rows))
    scale = (WIDTH - BAR_LEFT - 60) / ((high - low) or 1.0)
    zero = BAR_LEFT - low * scale
    return tuple(
        DrawnBar(
            name if len(name) <= 22 else f"{name[:21]}…", number_text(value),
            round(min(zero, zero + value * scale), 1), max(1.0, round(abs(value) * scale, 1)),
        )
        for name, value in rows
    )  # fmt: skip


def thinned(points: Sequence[Point]) -> tuple[Point, ...]:
    if len(points) <= MOST_POINTS:
        return tuple(points)
    size = -(-len(points) // (MOST_POINTS // 2))
    found: list[Point] = []
    for first in range(0, len(points), size):
        part = [(at, y) for at, (_, y) in enumerate(points[first : first + size]) if y is not None]
        if part:
            ends = {min(part, key=lambda one: one[1])[0], max(part, key=lambda one: one[1])[0]}
            found += [points[first + at] for at in sorted(ends)]
        else:
            found.append(points[first])
    return tuple(found)


def path_of(points: Iterable[tuple[float, float | None]]) -> str:
    """Return the path of a line, with a gap at each value that is no number."""
    parts, is_open = [], False
    for x, y in points:
        if y is not None:
            parts.append(f"{'L' if is_open else 'M'}{x:g} {y:g}")
        is_open = y is not None
    return "".join(parts)


def lonely(points: Sequence[tuple[float, float | None]]) -> Iterable[tuple[float, float]]:
    """Yield the points without a neighbour: a path does not show them."""
    for at, (x, y) in enumerate(points):
        before = at > 0 and points[at - 1][1] is not None
        after = at + 1 < len(points) and points[at + 1][1] is not None
        if y is not None and not before and not after:
            yield x, y


def ticks(low: float, high: float) -> list[float]:
    """Return round numbers between the ends of an axis."""
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first + 1
    return [(first + number) * step for number in range(count)]


def number_text(value: float) -> str:
    return f"{value:.4g}" if value else "0"


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of an axis, which are never the same."""
    low, high = min(values, default=0.0), max(values, default=1.0)
    if high - low > 1e-12 * max(abs(low), abs(high), 1e-290):
        return low, high
    margin = abs(low) / 2 or 0.5
    return low - margin, high + margin
