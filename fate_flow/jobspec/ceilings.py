"""Ceilings: the most that a party allows a job, and their effect on requested values.

Values that concern only the party's own workers are lowered to the ceiling, since the job stays the same for other
parties. If any other value exceeds its ceiling, the party refuses the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from fate_flow.core.model.policy import Policy, PolicyAction
from fate_flow.core.model.resources import request_of
from fate_flow.core.model.retry import RetryEvent, RetryRule
from fate_flow.core.model.spec import JobParameters, JobSpec, Party, TaskSpec
from fate_flow.jobspec.fate_v1.layers import Block, blocks_for, place_in


@dataclass(frozen=True)
class Ceilings:
    """None: no ceiling. Times in seconds, memory in MB."""

    max_attempts: int | None = None
    max_interruptions: int | None = None
    retry_duration: float | None = None
    job_timeout: int | None = None
    task_timeout: int | None = None          # of this party's own workers: a longer one is lowered
    task_cores: int | None = None
    task_memory: int | None = None
    task_gpus: int | None = None
    replicas: int | None = None              # of a task at this party
    least_ttl: int | None = None             # an ended job is kept here at least this long, whatever its ttl
    refused_actions: frozenset[str] = frozenset()
    party_lost_retry: bool = True            # False: no job of this party may wait for the return of a lost party

    def timeout_of(self, asked: int) -> int:
        """Return the seconds that an attempt may run here; 0: no limit."""
        return asked if self.task_timeout is None else min(asked or self.task_timeout, self.task_timeout)

    def ttl_of(self, asked: int) -> int:
        """Return the seconds that an ended job is kept here."""
        return max(asked, self.least_ttl or 0)


NO_CEILINGS = Ceilings()


def stop_allowed(asked: float | None, grace: float, longest: float) -> float:
    """Return the seconds between SIGTERM and SIGKILL: those of the job, up to the party's limit; else `grace`."""
    return grace if asked is None else min(asked, max(longest, grace))


def refusals(ceilings: Ceilings, spec: JobSpec, party: Party, nodes: int, *, is_own: bool) -> list[str]:
    """Return the values that this party refuses, each with its path in the document and the key of its ceiling.

    `is_own`: the job is this party's own. Only then the texts have the number of the ceiling, because other parties
    read those about theirs."""
    if ceilings == NO_CEILINGS:
        return []
    blocks = {one: blocks_for(spec.conf, spec.parties, one) for one in (party, spec.initiator)}
    asked = _Asked(ceilings, spec, party, blocks, is_own)
    found = [*asked.of_job(nodes), *(problem for task in spec.run_at(party) for problem in asked.of_task(task, nodes))]
    return list(dict.fromkeys(found))


_Place = Callable[[], str]      # called only for refused values


@dataclass(frozen=True)
class _Asked:
    """Compares what a job asks of one party with the party's ceilings."""

    ceilings: Ceilings
    spec: JobSpec
    party: Party
    blocks: Mapping[Party, list[Block]]      # of the job parameters of this party and of the initiator
    is_own: bool

    def of_job(self, nodes: int) -> Iterator[str]:
        request = request_of(self.party, self.spec.parameters[self.party], nodes)
        stated = [task.resources_at(self.party) for task in self.spec.run_at(self.party)]
        for key in ("cores", "memory", "gpus"):
            if not stated or any(getattr(own, key) is None for own in stated):      # a task has that of the job
                where = partial(self._place, self.party, f"task_{key}")
                yield from self._more(getattr(request, f"task_{key}"), f"task_{key}", where)
        yield from self._more(self._job.timeout_seconds, "job_timeout", partial(self._said, "timeout"))
        yield from self._actions(("policies",), self._job.extra)
        yield from self._restarts()
        if not self.ceilings.party_lost_retry and RetryEvent.PARTY_LOST in self.spec.retry.on_events:
            place = self._said("retry", "on_events")
            yield f"{place}: party_lost is refused by {self.party} (ceilings.party_lost_retry)"

    def _restarts(self) -> Iterator[str]:
        """Check restarts of the whole job, which the job's own retry rule limits, whatever its tasks have."""
        policies = [*self.spec.policies, *(one for task in self.spec.tasks.values() for one in task.policies)]
        if _has(PolicyAction.RESTART_JOB, policies):
            if self._is_automatic({}):
                yield from self._more(self._job.auto_retries, "max_attempts", partial(self._said, "auto_retries"), 1)
            else:
                asked, place = self.spec.retry.for_policies.max_attempts, partial(self._said, "retry", "max_attempts")
                yield from self._more(asked, "max_attempts", place)

    def of_task(self, task: TaskSpec, nodes: int) -> Iterator[str]:
        stated = task.resources_at(self.party)
        request = request_of(self.party, self.spec.parameters_of(task, self.party), nodes)
        for key in ("cores", "memory", "gpus"):
            if getattr(stated, key) is not None:
                where = partial(self._place, self.party, "task_conf", task.name, key)
                yield from self._more(getattr(request, f"task_{key}"), f"task_{key}", where)
        own: Mapping[str, Any] = self._job.extra.get("task_conf", {}).get(task.name, {})
        yield from self._retries(task, own)
        replicas = task.parameters.get(self.party, {}).get("replicas")
        if isinstance(replicas, int):
            place = f"{self.spec.paths.of_parameters(task.name, str(self.party))}: replicas"
            yield from self._more(replicas, "replicas", lambda: place)
        yield from self._actions(("task_conf", task.name, "policies"), own)

    def _retries(self, task: TaskSpec, own: Mapping[str, Any]) -> Iterator[str]:
        """Check how often and for how long a task may be retried, by its retry rule or by policies limited by it."""
        is_restarted = _has(PolicyAction.RESTART_TASK, (*task.policies, *self.spec.policies))
        rule = task.retry.for_policies if is_restarted else task.retry
        if rule.is_said and not self._is_automatic(own):
            for key in ("max_attempts", "max_interruptions"):
                yield from self._more(getattr(rule, key), key, partial(self._in_retry, task, key))
        else:
            for key, first in (("max_attempts", 1), ("max_interruptions", 0)):      # the first attempt is no retry
                yield from self._more(self._job.auto_retries, key, partial(self._said, "auto_retries"), first)
        yield from self._retries_for(task, rule)

    def _is_automatic(self, own: Mapping[str, Any]) -> bool:
        return bool(self._job.auto_retries) and "retry" not in own and "retry" not in self._job.extra

    @property
    def _job(self) -> JobParameters:
        return self.spec.common

    def _more(self, asked: float, key: str, place: _Place, free: int = 0) -> Iterator[str]:
        """Yield a refusal if the value exceeds the ceiling; `free`: the part of the ceiling that does not count."""
        most = getattr(self.ceilings, key)
        if most is not None and asked > most - free:
            yield f"{place()}: {asked:g} is more than {self._the_most(most - free, key)}"

    def _retries_for(self, task: TaskSpec, rule: RetryRule) -> Iterator[str]:
        """Check for how long a task may be retried: a rule without a limit exceeds every ceiling."""
        most = self.ceilings.retry_duration
        if most is None or (not rule.retries and not rule.max_interruptions):
            return
        if not 0 < rule.duration <= most:
            asked = f"{rule.duration:g}" if rule.duration else "0 (no limit)"
            yield f"{self._in_retry(task, 'duration')}: {asked} is more than {self._the_most(most, 'retry_duration')}"

    def _actions(self, keys: tuple[str, ...], said: Mapping[str, Any]) -> Iterator[str]:
        for number, policy in enumerate(said.get("policies") or ()):
            if policy.get("action") in self.ceilings.refused_actions:
                place = f"{self._said(*keys)}[{number}].action"
                yield f"{place}: {policy['action']} is refused by {self.party} (ceilings.refused_actions)"

    def _the_most(self, most: float, key: str) -> str:
        number = f"{most:g}, the most that " if self.is_own else ""
        return f"{number}{self.party} allows (ceilings.{key})"

    def _in_retry(self, task: TaskSpec, key: str) -> str:
        """Return the path of a key of a task's retry rule, or the path where it is missing."""
        own = ("task_conf", task.name, "retry")
        for keys in ((*own, key), ("retry", key), own, ("retry",)):
            place = place_in(self.blocks[self.spec.initiator], keys)
            if place:
                return self.spec.paths.of(place if keys[-1] == key else f"{place}.{key}")
        return self._said("auto_retries") if self._job.auto_retries else self._said("retry", key)

    def _said(self, *keys: str) -> str:
        """Return the path of a value that applies to all parties: in the initiator's parameters."""
        return self._place(self.spec.initiator, *keys)

    def _place(self, party: Party, *keys: str) -> str:
        found = place_in(self.blocks[party], keys)
        return self.spec.paths.of(found or ".".join(("job_runtime_conf.job_parameters.common", *keys)))


def _has(action: PolicyAction, policies: Iterable[Policy]) -> bool:
    return any(one.action is action for one in policies)
