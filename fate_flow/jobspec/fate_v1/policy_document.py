"""The `policies` of a job document: a list for the whole job, and one for a component, which has precedence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from fate_flow.core.model.grammar import shown
from fate_flow.core.model.policy import FOLLOWS, Policy, PolicyAction, PolicyEvent
from fate_flow.core.model.spec import JobParameters
from fate_flow.jobspec.text.document import MAX_WHOLE, Node

_EVENTS = tuple(event.value for event in PolicyEvent)
_ACTIONS = tuple(action.value for action in PolicyAction)
_KEYS = ("event", "events", "exit_code", "action", "timeout")
_HIGHEST_EXIT_CODE = 255
_REJOIN = "restart_party"
_STAR = "*"


def read_policies(node: Node) -> list[dict[str, Any]] | None:
    """Return the checked list with the given keys; None, with problems, if it is wrong."""
    if not isinstance(node.value, list):
        node.wrong(f"{shown(node.value)} is not a list of policies")
        return None
    before = len(node.findings.problems)
    found = [_policy(one) for one in node.elements()]
    _check_list(node, found)
    return found if len(node.findings.problems) == before else None


def policies_for(parameters: JobParameters, name: str = "") -> tuple[Policy, ...]:
    """Return the policies of a component; without a name, those of the job."""
    said = parameters.extra.get("task_conf", {}).get(name, {}) if name else parameters.extra
    return tuple(_rule(one) for one in said.get("policies") or ())


def _rule(said: Mapping[str, Any]) -> Policy:
    return Policy(
        PolicyAction(said["action"]), frozenset(map(PolicyEvent, _named(said))), said.get("exit_code"),
        said.get("timeout", 0),
    )  # fmt: skip


def _named(said: Mapping[str, Any]) -> list[str]:
    """Return the names of the events of a policy; * is `any`."""
    events = said.get("events", [said["event"]] if "event" in said else [])
    return ["any" if one == _STAR else one for one in events] if isinstance(events, list) else []


# ------------------------------------------------------------------ one policy


def _policy(node: Node) -> dict[str, Any]:
    """Return the given keys of a policy; add problems."""
    if not node.is_object():
        return {}
    node.nothing_but(_KEYS)
    found = {key: node.value[key] for key in _KEYS if node.at(key).is_given}
    _check_subject(node)
    is_right = [_check_action(node), *(_check_event(one) for one in _event_nodes(node))]
    _check_exit_code(node.at("exit_code"))
    _check_timeout(node)
    if all(is_right):
        _check_together(node, found)
    return found


def _check_subject(node: Node) -> None:
    given = [key for key in ("event", "events", "exit_code") if node.at(key).is_given]
    if len(given) != 1:
        so = f"has {' and '.join(given)}" if given else "has none"
        node.wrong(f"{so}; a policy must have exactly one of event, events and exit_code")
    if node.at("events").value == []:
        node.at("events").wrong(f"names no event; there are {', '.join(_EVENTS)}")


def _event_nodes(node: Node) -> list[Node]:
    return [one for one in (node.at("event"), *node.at("events").elements()) if one.is_given]


def _check_event(node: Node) -> bool:
    is_right = node.value in (*_EVENTS, _STAR) if isinstance(node.value, str) else False
    if not is_right:
        node.wrong(f"{shown(node.value)} is not one of {', '.join(_EVENTS)}")
    return is_right


def _check_action(policy: Node) -> bool:
    node = policy.at("action")
    if not node.needed():
        return False
    if node.value == _REJOIN:
        node.wrong(f"{_REJOIN}: no component can rejoin a running task; restart_task restarts it at all parties")
    elif node.value not in _ACTIONS:
        node.wrong(f"{shown(node.value)} is not one of {', '.join(_ACTIONS)}")
    return node.value in _ACTIONS


def _check_exit_code(node: Node) -> None:
    code = node.value
    if node.is_given and (isinstance(code, bool) or not isinstance(code, int) or not 1 <= code <= _HIGHEST_EXIT_CODE):
        node.wrong(f"{shown(code)} is not a whole number from 1 to {_HIGHEST_EXIT_CODE}: 0 is no failure")


def _check_timeout(policy: Node) -> None:
    node = policy.at("timeout")
    seconds = node.value
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if node.is_given and not (is_number and 0 <= seconds <= MAX_WHOLE):
        node.wrong(f"{shown(seconds)} is not a number of seconds from 0 to {MAX_WHOLE}")


def _check_together(node: Node, said: Mapping[str, Any]) -> None:
    """Add problems for values that are valid alone, but not together."""
    action = PolicyAction(said["action"])
    for event in map(PolicyEvent, _named(said)):
        if action not in FOLLOWS[event]:
            fit = ", ".join(sorted(one.value for one in FOLLOWS[event]))
            node.at("action").wrong(f"{action.value} cannot follow {event.value}; possible actions are {fit}")
        if event is PolicyEvent.START_TIMEOUT and action is not PolicyAction.IGNORE and not said.get("timeout"):
            node.at("timeout").wrong("is missing or 0; start_timeout counts these seconds from the start of the task")
    if action is PolicyAction.IGNORE and said.get("timeout"):
        node.at("timeout").wrong("has nothing to delay: the action is ignore")


# ------------------------------------------------------------------ a list of them


def _check_list(node: Node, policies: Iterable[Mapping[str, Any]]) -> None:
    every = list(policies)
    names = [name for one in every for name in _named(one) if isinstance(name, str)]
    for name, count in Counter(names).items():
        if count > 1:
            node.wrong(f"has {name} {count} times; the first one applies, so the others have no effect")
    if "any" in names and len(set(names)) > 1:
        others = ", ".join(sorted(set(names) - {"any"}))
        node.wrong(f"has any and {others}; any must be the only event in the list")
    codes = Counter(one["exit_code"] for one in every if isinstance(one.get("exit_code"), int))
    for code, count in codes.items():
        if count > 1:
            node.wrong(f"has exit_code {code} {count} times; the first one applies, so the others have no effect")
