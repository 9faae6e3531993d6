"""What a party allows a job at most, and what that makes of what the job asks for.

What concerns the party's own workers alone is capped there: to others it is no other job. Whatever the job means at
other parties too is not: to ask for more is to be refused.
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
    task_timeout: int | None = None          # of this party's own workers: what asks for more is capped
    task_cores: int | None = None
    task_memory: int | None = None
    replicas: int | None = None              # of a task, at this party
    least_ttl: int | None = None             # an ended job is kept here so long, whatever its ttl says
    refused_actions: frozenset[str] = frozenset()
    party_lost_retry: bool = True            # False: no job of this party waits for the return of a lost one

    def timeout_of(self, asked: int) -> int:
        """The seconds that an attempt may run here; 0: no limit."""
        return asked if self.task_timeout is None else min(asked or self.task_timeout, self.task_timeout)

    def ttl_of(self, asked: int) -> int:
        """The seconds that an ended job is kept here."""
        return max(asked, self.least_ttl or 0)


NO_CEILINGS = Ceilings()


def stop_allowed(asked: float | None, grace: float, longest: float) -> float:
    """Seconds from SIGTERM to SIGKILL: `asked` by the job, as far as the party allows, else the party's own `grace`."""
    return grace if asked is None else min(asked, max(longest, grace))


def refusals(ceilings: Ceilings, spec: JobSpec, party: Party, nodes: int) -> list[str]:
    """What this party does not agree to, each with the path of the document, the value and the ceiling."""
    if ceilings == NO_CEILINGS:
        return []
    blocks = {one: blocks_for(spec.conf, spec.parties, one) for one in (party, spec.initiator)}
    asked = _Asked(ceilings, spec, party, blocks)
    tasks = [task for task in spec.tasks_of(party) if party not in task.passed_at]
    found = [*asked.of_job(nodes), *(problem for task in tasks for problem in asked.of_task(task))]
    return list(dict.fromkeys(found))


_Place = Callable[[], str]      # looked up for what is refused alone


@dataclass(frozen=True)
class _Asked:
    """What a job asks of one party, held against its ceilings."""

    ceilings: Ceilings
    spec: JobSpec
    party: Party
    blocks: Mapping[Party, list[Block]]      # of the job parameters of this party and of the initiator

    def of_job(self, nodes: int) -> Iterator[str]:
        request = request_of(self.party, self.spec.parameters[self.party], nodes)
        for key, asked in (("task_cores", request.task_cores), ("task_memory", request.task_memory)):
            yield from self._more(asked, key, partial(self._place, self.party, key))
        yield from self._more(self._job.timeout_seconds, "job_timeout", partial(self._said, "timeout"))
        yield from self._actions(("policies",), self._job.extra)
        yield from self._restarts()
        if not self.ceilings.party_lost_retry and RetryEvent.PARTY_LOST in self.spec.retry.on_events:
            place = self._said("retry", "on_events")
            yield f"{place}: party_lost is refused by {self.party} (ceilings.party_lost_retry)"

    def _restarts(self) -> Iterator[str]:
        """Of the whole job, which its own retry rule bounds, whatever its tasks have."""
        policies = [*self.spec.policies, *(one for task in self.spec.tasks.values() for one in task.policies)]
        if _has(PolicyAction.RESTART_JOB, policies):
            if self._is_automatic({}):
                yield from self._more(self._job.auto_retries, "max_attempts", partial(self._said, "auto_retries"), 1)
            else:
                asked, place = self.spec.retry.for_policies.max_attempts, partial(self._said, "retry", "max_attempts")
                yield from self._more(asked, "max_attempts", place)

    def of_task(self, task: TaskSpec) -> Iterator[str]:
        own: Mapping[str, Any] = self._job.extra.get("task_conf", {}).get(task.name, {})
        yield from self._retries(task, own)
        replicas = task.parameters.get(self.party, {}).get("replicas")
        if isinstance(replicas, int):
            place = f"job_runtime_conf.component_parameters: {task.name} at {self.party}: replicas"
            yield from self._more(replicas, "replicas", lambda: place)
        yield from self._actions(("task_conf", task.name, "policies"), own)

    def _retries(self, task: TaskSpec, own: Mapping[str, Any]) -> Iterator[str]:
        """How often and for how long it may begin again, by its retry rule or by policies, which count by that rule."""
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
        """A refusal when more is asked for than the ceiling; `free`: so much of it is for nothing."""
        most = getattr(self.ceilings, key)
        if most is not None and asked > most - free:
            yield f"{place()}: {asked:g} is more than {self._the_most(most - free, key)}"

    def _retries_for(self, task: TaskSpec, rule: RetryRule) -> Iterator[str]:
        """How long it goes on being tried again: a rule without a limit asks for more than any ceiling."""
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
        return f"{most:g}, the most that {self.party} allows (ceilings.{key})"

    def _in_retry(self, task: TaskSpec, key: str) -> str:
        """Where a key of its retry rule is said, else the block that it is missing in."""
        own = ("task_conf", task.name, "retry")
        for keys in ((*own, key), ("retry", key), own, ("retry",)):
            place = place_in(self.blocks[self.spec.initiator], keys)
            if place:
                return place if keys[-1] == key else f"{place}.{key}"
        return self._said("auto_retries") if self._job.auto_retries else self._said("retry", key)

    def _said(self, *keys: str) -> str:
        """Where what all go by is said, which is what the initiator is told."""
        return self._place(self.spec.initiator, *keys)

    def _place(self, party: Party, *keys: str) -> str:
        found = place_in(self.blocks[party], keys)
        return found or ".".join(("job_runtime_conf.job_parameters.common", *keys))


def _has(action: PolicyAction, policies: Iterable[Policy]) -> bool:
    return any(one.action is action for one in policies)
