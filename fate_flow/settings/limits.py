"""Bounds, intervals and what is kept for how long: the sections `limits`, `retention` and `ceilings`."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.policy import PolicyAction
from fate_flow.jobspec.ceilings import Ceilings
from fate_flow.settings.section import Section, collected


@dataclass(frozen=True)
class Limits:
    """Bounds and intervals. Times in seconds, sizes in bytes; each is a key of the section `limits`."""

    poll_interval: float = 2.0           # the scheduler's safety net
    remote_request_timeout: float = 30.0 # one request to another party; it never takes longer than party_silence
    submit_timeout: float = 30.0         # until every party has accepted a submit
    hold_seconds: float = 60.0           # reserved but not started: given back after so long
    ready_seconds: float = 90.0          # created but not accepted everywhere: removed after so long
    heartbeat_interval: float = 5.0      # to every party that runs something for us
    party_silence: float = 90.0          # the initiator gives a party up after so long
    initiator_silence: float = 120.0     # a party stops its workers after so long; more than party_silence
    plain_hold_seconds: float = 300.0    # hold_seconds for an initiator that speaks plain v1, which renews nothing
    plain_silence: float = 660.0         # initiator_silence for it: FATE's own signs of life are minutes apart
    command_keep: float = 604_800.0      # a command that nobody answered is dropped after so long, once the job is over
    server_silence: float = 600.0        # a worker's runner stops it when its own server is gone for so long
    stop_grace: float = 10.0             # SIGTERM, then SIGKILL after so long
    longest_stop: float = 300.0          # what a job may ask for instead (stop_duration)
    drain_timeout: float = 60.0          # a party that has not confirmed a stop by then is unconfirmed
    launch_timeout: float = 60.0         # no process after so long: the launch has failed
    retry_wait: float = 2.0              # before a refused reservation is asked for again
    long_backoff: float = 30.0           # a job that runs nothing for longer gives its cores back until then
    queue_passes: int = 16               # jobs that may take what the first waiting one lacks before it
    queue_ageing: float = 60.0           # to have waited for so long outweighs one level of priority
    resource_waiting_timeout: float = 0  # a job may wait for cores so long; 0: for ever
    max_request_bytes: int = 64 * 1024 * 1024
    upload_max_bytes: int = 4 * 1024 * 1024 * 1024
    spool_max_bytes: int = 4 * 1024 * 1024 * 1024

    @property
    def longest_answer(self) -> float:
        """Seconds until a request to another party has failed: no later than the party counts as silent.

        Else the initiator would learn of the silence when the party has given up first."""
        return min(self.remote_request_timeout, self.party_silence)


_MAY_BE_ZERO = frozenset({"stop_grace", "longest_stop", "retry_wait", "queue_passes", "resource_waiting_timeout"})
"""The limits that mean something as 0; no other interval or bound does."""

_LONGEST_AGEING = 1e9      # seconds: a thousand levels of that still fit into the database


@dataclass(frozen=True)
class Retention:
    """What is kept of what is over. Days since the end, or the last line, or the making; 0: for ever."""

    finished_jobs_days: float = 30.0     # rows, folders of the job and of its workers, what its tasks reported
    job_logs_days: float = 30.0
    job_logs_max_bytes: int = 20 << 30   # of all jobs together, the oldest go first; 0: any
    output_tables_days: float = 0.0
    most_finished_jobs: int = 0          # the oldest go first; 0: any number


_LEAST_CEILINGS = {
    "max_attempts": 1, "max_interruptions": 0, "retry_duration": 1, "job_timeout": 1, "task_timeout": 1,
    "task_cores": 1, "task_memory": 0, "replicas": 1, "least_ttl": 1,
}  # fmt: skip
"""The numbers of the section `ceilings`, and what each is at least."""
_ACTIONS = tuple(action.value for action in PolicyAction)


@collected
def read_limits(section: Section) -> Limits:
    found: dict[str, Any] = {}
    for one in fields(Limits):
        default, may_be_zero = getattr(Limits(), one.name), one.name in _MAY_BE_ZERO
        if one.type == "int":
            found[one.name] = section.whole(one.name, default, 0 if may_be_zero else 1)
        else:
            found[one.name] = section.number(one.name, default, 0 if may_be_zero else 0.01)
    section.refuse_others()
    limits = Limits(**found)
    if limits.heartbeat_interval >= limits.party_silence:
        raise BadSettings(
            f"limits.heartbeat_interval: {limits.heartbeat_interval:g} is not below limits.party_silence "
            f"({limits.party_silence:g}): parties would take us for lost between two heartbeats"
        )
    if limits.initiator_silence <= limits.party_silence:
        raise BadSettings(
            f"limits.initiator_silence: {limits.initiator_silence:g} is not above limits.party_silence "
            f"({limits.party_silence:g}): the initiator has to give up first, so that both sides agree"
        )
    if limits.queue_ageing > _LONGEST_AGEING:
        raise BadSettings(
            f"limits.queue_ageing: {limits.queue_ageing:g} is more than {_LONGEST_AGEING:g} seconds a level"
        )
    return limits


def read_retention(section: Section) -> Retention:
    base = Retention()
    found = Retention(
        finished_jobs_days=section.number("finished_jobs_days", base.finished_jobs_days),
        job_logs_days=section.number("job_logs_days", base.job_logs_days),
        job_logs_max_bytes=section.whole("job_logs_max_bytes", base.job_logs_max_bytes),
        output_tables_days=section.number("output_tables_days", base.output_tables_days),
        most_finished_jobs=section.whole("most_finished_jobs", base.most_finished_jobs),
    )
    section.refuse_others()
    return found


@collected
def read_ceilings(section: Section) -> Ceilings:
    found: dict[str, Any] = {
        key: section.whole(key, 0, least) if section.get(key) is not None else None
        for key, least in _LEAST_CEILINGS.items()
    }
    actions = section.get("refused_actions", [])
    if not isinstance(actions, list) or not all(one in _ACTIONS for one in actions):
        raise BadSettings(f"{section.name('refused_actions')}: {actions!r} is not a list of {', '.join(_ACTIONS)}")
    may_wait = section.flag("party_lost_retry", True)
    section.refuse_others()
    return Ceilings(**found, refused_actions=frozenset(actions), party_lost_retry=may_wait)
