"""Show where each effective value of a job comes from, for people who check a job before they submit it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.retry import OF_THE_JOB, RetryEvent, RetryRule
from fate_flow.core.model.spec import OWN_RESOURCES, JobParameters, JobSpec, Party, TaskSpec
from fate_flow.jobspec.fate_v1.layers import Block, blocks_for, place_in

DOCUMENT, SERVER, BUILT_IN, PARTY = "document", "server default", "default", "party"


@dataclass(frozen=True)
class Sourced:
    """A value and its source, one of the above; `where`: its path or setting. Times in seconds, memory in MB."""

    value: Any
    source: str
    where: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {"value": self.value, "from": self.source, "where": self.where}


PartyValues = Mapping[tuple[str, str], Mapping[str, Any]]
"""The effective values of a party's own workers, by task and key: entries of `effective` in its answer."""

_SETTINGS = {
    "task_cores": "task_cores", "task_memory": "task_memory", "task_parallelism": "task_parallelism",
    "timeout": "job_timeout", "task_timeout": "task_timeout", "auto_retries": "auto_retries",
}  # fmt: skip
"""The key of `job_default_config` for each key of a job."""


class Sources:
    """The sources of the values of a submitted job, at a server with these defaults."""

    def __init__(self, spec: JobSpec, defaults: JobParameters) -> None:
        self._spec = spec
        self._defaults = defaults
        self._initiators = blocks_for(spec.stated_conf, spec.parties, spec.initiator)

    def of_job(self) -> dict[str, Sourced]:
        """Return the values that apply to the whole job."""
        place = self._path_of(self._initiators, ("priority",))
        return {
            "timeout": self._said(self._initiators, "timeout", self._spec.common.timeout_seconds),
            "priority": Sourced(self._spec.priority, DOCUMENT if place else BUILT_IN, place),
            "no_capacity": self._waits_for(RetryEvent.NO_CAPACITY),
            "party_lost": self._waits_for(RetryEvent.PARTY_LOST),
        }

    def _waits_for(self, event: RetryEvent) -> Sourced:
        """Return what the job does if a party has no capacity or is lost; the rules of its tasks do not count here."""
        rule, text, key = self._spec.retry, "waits", "on_events"
        if event not in rule.on_events:
            text = "ends the job"
        elif rule.duration:
            text, key = f"waits {rule.duration:g} s", "duration"
        place = self._path_of(self._initiators, ("retry", key))
        return Sourced(text, DOCUMENT if place else BUILT_IN, place)

    def of_party(self, party: Party) -> dict[str, Sourced]:
        """Return the resources that each task takes at a party."""
        blocks, parameters = blocks_for(self._spec.stated_conf, self._spec.parties, party), self._spec.parameters[party]
        found = {
            key: self._said(blocks, key, getattr(parameters, key))
            for key in ("task_cores", "task_memory", "task_parallelism")
        }
        given = {
            "task_gpus": parameters.task_gpus, "queue": parameters.queue, "labels": list(parameters.labels),
            "longest_pending": parameters.longest_pending_seconds,
        }  # fmt: skip
        for key, value in given.items():
            place = self._path_of(blocks, (key,))
            found[key] = Sourced(value, DOCUMENT if place else BUILT_IN, place)
        cores = found["task_cores"]
        if cores.source == SERVER and cores.value != self._defaults.task_cores:
            found["task_cores"] = Sourced(cores.value, BUILT_IN, "the component's own")
        return found

    def of_tasks(self, party: Party, stated: PartyValues | None) -> Iterator[tuple[TaskSpec, dict[str, Sourced]]]:
        """Yield each task of the party with its effective values; `stated` None: the party was not asked."""
        blocks = blocks_for(self._spec.stated_conf, self._spec.parties, party)
        for task in self._spec.tasks_of(party):
            values = {
                "timeout": self._timeout(task, party, blocks), "stop_duration": self._stop(task), **self._retry(task),
                **self._min_available(task), **self._policies(task), **self._resources(task, party, blocks),
            }  # fmt: skip
            for key in ("timeout", "stop_duration"):
                own = (stated or {}).get((task.name, key))
                if own is not None:
                    values[key] = Sourced(own.get("value"), PARTY, f"{own.get('source')} of {party}")
            yield task, values

    def _path_of(self, blocks: list[Block], *alternatives: Sequence[str]) -> str:
        """Return the path in the document of the first of these keys that is there, in the first block that has it; ""
        if none is there."""
        place = next((found for keys in alternatives if (found := place_in(blocks, keys))), "")
        return self._spec.paths.of(place) if place else ""

    def _said(self, blocks: list[Block], key: str, value: Any) -> Sourced:
        place = self._path_of(blocks, (key,))
        return Sourced(value, DOCUMENT, place) if place else Sourced(value, SERVER, _default(key))

    def _timeout(self, task: TaskSpec, party: Party, blocks: list[Block]) -> Sourced:
        place = self._path_of(blocks, ("task_conf", task.name, "timeout"))
        seconds = task.timeout_at(party)
        return Sourced(seconds, DOCUMENT, place) if place else self._said(blocks, "task_timeout", seconds)

    def _resources(self, task: TaskSpec, party: Party, blocks: list[Block]) -> dict[str, Sourced]:
        """Return what the task states of its resources."""
        stated = {key: getattr(task.resources_at(party), key) for key in OWN_RESOURCES}
        return {
            key: Sourced(value, DOCUMENT, self._path_of(blocks, ("task_conf", task.name, key)))
            for key, value in stated.items() if value is not None
        }  # fmt: skip

    def _stop(self, task: TaskSpec) -> Sourced:
        own, job = ("task_conf", task.name, "stop_duration"), ("stop_duration",)
        place = self._path_of(self._initiators, own, job)
        return Sourced(task.stop_seconds, DOCUMENT, place) if place else Sourced(None, PARTY, "its limits.stop_grace")

    def _retry(self, task: TaskSpec) -> dict[str, Sourced]:
        own, rule = ("task_conf", task.name, "retry"), task.retry
        if not self._path_of(self._initiators, own) and not self._path_of(self._initiators, ("retry",)):
            value = f"auto_retries: {self._spec.common.auto_retries}" if rule.is_said else "none"
            return {"retry": self._said(self._initiators, "auto_retries", value)}
        found = {}
        for key, value in _of_rule(rule):
            keys = key.split(".")
            place = self._path_of(self._initiators, (*own, *keys)) or self._path_of(self._initiators, ("retry", *keys))
            found[f"retry.{key}"] = Sourced(value, DOCUMENT, place) if place else Sourced(value, BUILT_IN)
        return found

    def _min_available(self, task: TaskSpec) -> dict[str, Sourced]:
        """Return the minimums of roles of which not all parties are needed."""
        found = {}
        for role, count in task.min_available.items():
            keys = ("min_available", role)
            place = self._path_of(self._initiators, ("task_conf", task.name, *keys), keys)
            found[".".join(keys)] = Sourced(count, DOCUMENT, place)
        return found

    def _policies(self, task: TaskSpec) -> dict[str, Sourced]:
        """Return the rules of a task in the order of their precedence: its own, then those of the job."""
        own = self._path_of(self._initiators, ("task_conf", task.name, "policies"))
        jobs = self._path_of(self._initiators, ("policies",))
        rules = [(rule, own, number) for number, rule in enumerate(task.policies)]
        rules += [(rule, jobs, number) for number, rule in enumerate(self._spec.policies)]
        return {
            f"policies[{place}]": Sourced(rule.text, DOCUMENT, f"{path}[{number}]")
            for place, (rule, path, number) in enumerate(rules)
        }


def _default(key: str) -> str:
    return f"job_default_config.{_SETTINGS[key]}"


def _of_rule(rule: RetryRule) -> Iterator[tuple[str, Any]]:
    yield "on_events", sorted(event.value for event in rule.on_events if event not in OF_THE_JOB)
    for key in ("max_attempts", "max_interruptions", "duration"):
        yield key, getattr(rule, key)
    for key in ("first", "factor", "longest", "jitter"):
        yield f"backoff.{key}", getattr(rule.backoff, key)
