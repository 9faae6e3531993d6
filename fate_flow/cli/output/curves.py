"""Curves that the tasks of a watched job report at this party, such as the loss of each iteration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fate_flow.cli.connection.client import CallFailed, Client
from fate_flow.cli.console.display import one_line
from fate_flow.cli.console.wording import party_name
from fate_flow.core.metrics.form import DEFAULT_GROUP

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 30                   # points of a sparkline
_MOST_VALUES = 8              # of a curve in one line

Point = tuple[Any, ...]       # step, value, and when it was reported


@dataclass(frozen=True)
class Curve:
    """The points of one metric of a party task so far."""

    component: str
    party: str
    version: int
    name: str
    axis: str
    points: tuple[Point, ...]

    @property
    def key(self) -> tuple[str, str, int, str]:
        return self.component, self.party, self.version, self.name


@dataclass
class Curves:
    """What is known of the curves of a job; each look asks for what is new."""

    client: Client
    job_id: str
    _after: int = 0
    _known: dict[tuple[str, str, int, str], Curve] = field(default_factory=dict)
    _seen: set[tuple[object, ...]] = field(default_factory=set)

    def up_to(self, newest: int) -> tuple[Curve, ...]:
        """Return the curves; `newest` is the number of the last piece that the server has. Without an answer, nothing
        is new."""
        while self._after < newest:
            try:
                answer = self.client.post("job/metrics", {"job_id": self.job_id, "after": self._after})
            except CallFailed:
                break
            if not answer.is_success or not isinstance(answer.data, Mapping):
                break
            for one in answer.data.get("curves") or ():
                self._add(one)
            if (reached := int(answer.data.get("next") or 0)) <= self._after:
                break
            self._after = reached
        return tuple(self._known.values())

    def _add(self, one: Mapping[str, Any]) -> None:
        curve = _curve(one)
        known = self._known.pop(curve.key, None)         # the curve that changed last is the last one
        points = known.points if known else ()
        fresh = [point for point in curve.points if (*curve.key, repr(point)) not in self._seen]
        self._seen.update((*curve.key, repr(point)) for point in fresh)
        self._known[curve.key] = Curve(*curve.key, curve.axis, (*points, *fresh))


def _curve(one: Mapping[str, Any]) -> Curve:
    groups = [part for part in str(one.get("namespace")).split("/") if part != DEFAULT_GROUP]
    return Curve(
        str(one.get("component_name")), party_name(one), int(one.get("task_version") or 0),
        one_line("/".join([*groups, str(one.get("name"))])), one_line(one.get("axis")),
        tuple((step, _alone(value), *when) for step, value, *when in one.get("points") or ()),
    )  # fmt: skip


def _alone(value: Any) -> Any:
    """Return the value of a list with one: FATE's regressions have a loss for each column that they predict."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def new_points(job: str, before: Sequence[Curve] | None, after: Sequence[Curve]) -> Iterator[str]:
    """Yield a line for each curve that has new points; at the first look (None), for the last point of each.

    `job`: its id and name, as they stand in front of each line."""
    known = {one.key: len(one.points) for one in before or ()}
    for one in after:
        first = len(one.points) - 1 if before is None else known.get(one.key, 0)
        if points := one.points[max(0, first):]:
            yield f"{job} task {one.component} {one.party}: {one.name} {_values(points, one.axis)}"


def _values(points: Sequence[Point], axis: str) -> str:
    shown = ", ".join(value_text(one[1]) for one in points[-_MOST_VALUES:])
    left_out = "..., " if len(points) > _MOST_VALUES else ""
    steps = f"{points[0][0]} to {points[-1][0]}" if len(points) > 1 else points[0][0]
    return f"{left_out}{shown} ({axis} {steps})"


def sparkline(points: Sequence[Point]) -> str:
    """Return the last values as bars, between the least and the most of them; empty for a single one, or for text."""
    values = [one[1] for one in points[-_WIDTH:]]
    if len(values) < 2 or not all(isinstance(one, int | float) for one in values):
        return ""
    least, most = min(values), max(values)
    scale = (len(_BARS) - 1) / (most - least) if most > least else 0.0
    return "".join(_BARS[round((one - least) * scale)] for one in values)


def value_text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else one_line(value)
