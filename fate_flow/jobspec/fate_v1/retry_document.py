"""The `retry` block of a job document: for the whole job, and for a component, which has only the differing values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fate_flow.core.model.grammar import shown
from fate_flow.core.model.retry import UNSAID, Backoff, RetryEvent, RetryRule, automatic
from fate_flow.core.model.spec import JobParameters
from fate_flow.jobspec.text.document import MAX_WHOLE, Node


def read_retry(node: Node) -> Mapping[str, Any] | None:
    """Return the checked block with the given keys; None, with a problem, if it is not an object."""
    if not node.is_object():
        return None
    return _known(node, _RETRY)


def rule_for(parameters: JobParameters, name: str = "") -> RetryRule:
    """Return the retry rule of a component: its own block overrides the job's, which overrides `auto_retries`.

    Without a name, return the rule of the job."""
    job = parameters.extra.get("retry")
    own = parameters.extra.get("task_conf", {}).get(name, {}).get("retry")
    if job is None and own is None:
        return automatic(parameters.auto_retries, parameters.auto_retry_delay_seconds)
    said = {**(job or {}), **(own or {})}
    backoff = {**(job or {}).get("backoff", {}), **(own or {}).get("backoff", {})}
    return RetryRule(
        on_events=frozenset(map(RetryEvent, said.get("on_events", _UNSAID))),
        **{key: said[key] for key in ("max_attempts", "max_interruptions", "duration") if key in said},
        backoff=Backoff(**backoff),
    )


def _known(node: Node, keys: Mapping[str, Callable[[Node], Any]]) -> dict[str, Any]:
    node.nothing_but(keys)
    found = {key: read(node.at(key)) for key, read in keys.items() if node.at(key).is_given}
    return {key: value for key, value in found.items() if value is not None}


def _events(node: Node) -> list[str] | None:
    """Read the events; an empty list is refused: `max_attempts: 1` means no retry."""
    if not isinstance(node.value, list):
        node.wrong(f"{shown(node.value)} is not a list")
        return None
    named = node.value
    wrong = next((one for one in named if one not in _EVENTS), None)
    if wrong is not None:
        node.wrong(f"{shown(wrong)} is not one of {', '.join(_EVENTS)}")
    elif len(set(named)) < len(named):
        node.wrong("names an event twice")
    elif not named:
        node.wrong(f"names no event; leave it out for {', '.join(_UNSAID)}")
    else:
        return named
    return None


def _number(minimum: float, maximum: float, what: str) -> Callable[[Node], float | None]:
    def read(node: Node) -> float | None:
        value = node.value
        if isinstance(value, (int, float)) and not isinstance(value, bool) and minimum <= value <= maximum:
            return value
        node.wrong(f"{shown(value)} is not {what} from {minimum} to {maximum}")
        return None

    return read


def _backoff(node: Node) -> Mapping[str, Any] | None:
    if not node.is_object():
        return None
    found = _known(node, _BACKOFF)
    first, longest = found.get("first", 0), found.get("longest", MAX_WHOLE)
    if first > longest:
        node.at("first").wrong(f"{first:g} s are more than longest, {longest:g} s")
    return found


_EVENTS = tuple(event.value for event in RetryEvent)
_UNSAID = tuple(event.value for event in RetryEvent if event in UNSAID)
_SECONDS = "a number of seconds"
_BACKOFF: Mapping[str, Callable[[Node], Any]] = {
    "first": _number(0, MAX_WHOLE, _SECONDS),
    "factor": _number(1, 100, "a number"),
    "longest": _number(0, MAX_WHOLE, _SECONDS),
    "jitter": _number(0, 1, "a part"),
}
_RETRY: Mapping[str, Callable[[Node], Any]] = {
    "on_events": _events,
    "max_attempts": lambda node: node.whole(1, "a whole number above 0"),
    "max_interruptions": lambda node: node.whole(0, "a whole number of 0 or more"),
    "duration": _number(0, MAX_WHOLE, _SECONDS),
    "backoff": _backoff,
}
