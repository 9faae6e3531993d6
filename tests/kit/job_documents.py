"""Documents of jobs for tests: FATE v1, of parties and tasks by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from fate_flow.core.model.spec import Party
from fate_flow.store.values import Document


def job(
    parties: dict[str, list[str]], tasks: dict[str, list[str]] | None = None, cores: int = 1, parallelism: int = 1,
    retries: int = 0, retry_delay: float = 1, initiator: str = "", memory: int = 0, priority: int = 0,
    commands: Mapping[str, Mapping[str, Any]] = MappingProxyType({}), policies: Sequence[Mapping[str, Any]] = (),
    task_conf: Mapping[str, Mapping[str, Any]] = MappingProxyType({}), fewest_hosts: int = 0,
    timeout: int = 0, max_failed_workers: int | None = None, returns: float | None = None, gpus: int = 0,
    queue: str = "", longest_pending: float = 0, labels: Sequence[str] = (),
) -> Document:  # fmt: skip
    """A document: tasks by name with the names of those they need; `commands` are programs, with their parameters;
    `task_conf` is what is said of some of them; `returns`: the seconds for which it waits for a party that it lost (0:
    for any time), None: it does not."""
    graph = tasks or {"work_0": []}
    components = {
        name: {
            "module": "Command" if name in commands else "Work",
            **({"input": {"data": {"data": [f"{up}.data" for up in needs]}}} if needs else {}),
            **({} if name in commands and "outputs" not in commands[name] else {"output": {"data": ["data"]}}),
        }
        for name, needs in graph.items()
    }
    retry: dict[str, Any] = {"auto_retries": retries, "auto_retry_delay": retry_delay}
    if returns is not None:
        backoff = {"first": retry_delay, "factor": 1, "longest": retry_delay, "jitter": 0}
        events = ["error", "timeout", "interruption", "no_capacity", "party_lost"]
        rule = {"on_events": events, "max_attempts": retries + 1, "max_interruptions": 3, "duration": returns}
        retry = {"retry": {**rule, "backoff": backoff}}
    common: dict[str, Any] = {"task_cores": cores, "task_parallelism": parallelism, **retry}
    if policies:
        common["policies"] = list(policies)
    if fewest_hosts:
        common["min_available"] = {"host": fewest_hosts}
    if max_failed_workers is not None:
        common["max_failed_workers"] = max_failed_workers
    if task_conf:
        common["task_conf"] = {name: dict(one) for name, one in task_conf.items()}
    more = {
        "task_gpus": gpus, "queue": queue, "task_memory": memory, "priority": priority, "timeout": timeout,
        "longest_pending": longest_pending, "labels": list(labels),
    }  # fmt: skip
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": int(initiator or parties["guest"][0])},
        "role": {role: [int(one) for one in ids] for role, ids in parties.items()},
        "job_parameters": {"common": {**common, **{key: value for key, value in more.items() if value}}},
        "component_parameters": {"common": {name: {"command": ["x"], **said} for name, said in commands.items()}},
    }
    return Document({"components": components}, conf, {})


def with_private_notes(document: Document) -> Document:
    """The same job, in which each seat has a parameter that no other party needs."""
    name, role = next(iter(document.dsl["components"])), dict[str, dict[str, Any]]()
    for party in parties_of(document):
        below = role.setdefault(party.role, {})
        below[str(len(below))] = {name: {"env": {"NOTE": private_note(party.party_id)}}}
    parameters = {**document.runtime_conf["component_parameters"], "role": role}
    return replace(document, runtime_conf={**document.runtime_conf, "component_parameters": parameters})


def private_note(party_id: str) -> str:
    return f"only for party {party_id}."


def parties_of(document: Document) -> tuple[Party, ...]:
    roles = document.runtime_conf["role"]
    return tuple(Party(role, str(one)) for role, ids in roles.items() for one in ids)


def upstream_of(document: Document) -> dict[str, list[str]]:
    """By task: the names of those that come before it."""
    conf = document.runtime_conf["job_parameters"]["common"].get("task_conf", {})
    return {
        name: [
            *(source.split(".")[0] for source in component.get("input", {}).get("data", {}).get("data", ())),
            *conf.get(name, {}).get("after", ()),
        ]
        for name, component in document.dsl["components"].items()
    }


BOTH = job({"guest": ["9999"], "host": ["10000"]}, cores=2)
LOCAL = job({"guest": ["9999"]})
"""One task at two parties, and at one."""
