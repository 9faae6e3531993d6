"""The effective values of a job's workers at a party that differ from the requested ones, and their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fate_flow.core.model.spec import JobSpec, Party
from fate_flow.core.text.phrases import sanitized
from fate_flow.jobspec.ceilings import Ceilings, stop_allowed

_MOST_SHOWN = 2_000       # limit for the entries of another party
_LONGEST_TEXT = 1_000
_MOST = 1e15              # larger numbers are not valid times


@dataclass(frozen=True)
class Effective:
    """One value in seconds; `asked` None: the job has no such value. A timeout of 0 means no limit."""

    component_name: str             # "the job" for the job as a whole
    key: str                        # timeout, stop_duration or ttl
    asked: float | None
    value: float
    source: str                     # the setting of the party: ceilings.task_timeout

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def effective_at(
    party: Party, spec: JobSpec, ceilings: Ceilings, stop_grace: float, longest_stop: float
) -> tuple[Effective, ...]:
    """Return the values that differ here from the requested ones, and those that were not requested."""
    found = []
    for task in spec.tasks_of(party):
        asked, stop = task.timeout_at(party), task.stop_seconds
        timeout, allowed = ceilings.timeout_of(asked), stop_allowed(stop, stop_grace, longest_stop)
        if timeout != asked:
            found.append(Effective(task.name, "timeout", asked, timeout, "ceilings.task_timeout"))
        if allowed != stop:
            source = "limits.stop_grace" if stop is None else "limits.longest_stop"
            found.append(Effective(task.name, "stop_duration", stop, allowed, source))
    ttl = spec.ttl_seconds
    if ttl is not None and ceilings.ttl_of(ttl) != ttl:
        found.append(Effective("the job", "ttl", ttl, ceilings.ttl_of(ttl), "ceilings.least_ttl"))
    return tuple(found)


def capped_text(given: object) -> str:
    """Return a text about the values that a party has lowered, from `effective` in its answer; "" if there are none."""
    names: dict[str, list[str]] = {}
    for one in given[:_MOST_SHOWN] if isinstance(given, list) else ():
        if isinstance(one, Mapping) and one.get("asked") is not None:
            asked = "no limit" if one["asked"] == 0 else f"{_short(one['asked'])} s"
            text = f"{_short(one.get('key'))} {asked} is {_short(one.get('value'))} s ({_short(one.get('source'))})"
            names.setdefault(text, []).append(_short(one.get("component_name")))
    return sanitized("; ".join(f"{', '.join(tasks)}: {text}" for text, tasks in names.items()), _LONGEST_TEXT)


def _short(value: object) -> str:
    is_number = isinstance(value, (int, float)) and -_MOST <= value <= _MOST
    return f"{value:g}" if is_number else sanitized(value, 60)
