"""The sections `limits`, `retention` and `ceilings`: bounds, intervals and retention times."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from fate_flow.core.metrics.form import MOST_BYTES_OF_JOB
from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.policy import PolicyAction
from fate_flow.core.quotas.disk_space import LeastFree
from fate_flow.jobspec.ceilings import Ceilings
from fate_flow.settings.reading.section import Section, collected


@dataclass(frozen=True)
class Limits:
    """Bounds and intervals. Times in seconds, sizes in bytes; each is a key of the section `limits`."""

    poll_interval: float = 2.0           # the scheduler polls in case a wake-up is lost
    remote_request_timeout: float = 30.0 # one request to another party; capped at party_silence
    submit_timeout: float = 30.0         # until every party has accepted a submit
    hold_seconds: float = 60.0           # a reservation without a start is released after this time
    ready_seconds: float = 90.0          # a job that some party has not accepted is removed after this time
    heartbeat_interval: float = 5.0      # heartbeats to every party that runs something for us
    idle_heartbeat_interval: float = 60.0        # heartbeats to every other party that no job binds; 0: none
    party_silence: float = 90.0          # the initiator gives up a silent party after this time
    initiator_silence: float = 120.0     # a party stops its workers after this time; longer than party_silence
    plain_hold_seconds: float = 300.0    # hold_seconds for an initiator that speaks plain v1, which renews nothing
    plain_silence: float = 660.0         # initiator_silence for it: FATE sends signs of life only every few minutes
    command_keep: float = 604_800.0      # an unanswered command of an ended job is dropped after this time
    server_silence: float = 600.0        # a runner stops its worker if its own server is gone for this time
    stop_grace: float = 10.0             # time between SIGTERM and SIGKILL
    longest_stop: float = 300.0          # the longest stop_duration that a job may request instead
    drain_timeout: float = 60.0          # a party that has not confirmed a stop by then is unconfirmed
    launch_timeout: float = 60.0         # a launch without a process has failed after this time
    retry_wait: float = 2.0              # wait before a refused reservation is requested again
    long_backoff: float = 30.0           # a job that pauses for longer releases its cores until it continues
    queue_passes: int = 16               # number of jobs that may bypass the first waiting job
    queue_ageing: float = 60.0           # waiting this long outweighs one level of priority
    resource_waiting_timeout: float = 0  # the longest time that a job may wait for cores; 0: no limit
    max_request_bytes: int = 64 * 1024 * 1024
    upload_max_bytes: int = 4 * 1024 * 1024 * 1024
    spool_max_bytes: int = 4 * 1024 * 1024 * 1024
    metrics_max_bytes: int = MOST_BYTES_OF_JOB   # of all metrics of one job at this party
    staged_output_max_bytes: int = 16 * 1024 * 1024 * 1024      # that one worker on a host without the home may send
    least_free_disk: int | float | None = None   # bytes, or a share below 1; None: as `LeastFree` says

    @property
    def least_free(self) -> LeastFree:
        """Return how much of the disk with the home stays free."""
        found = self.least_free_disk
        return LeastFree(share=found) if isinstance(found, float) else LeastFree(found)

    @property
    def longest_answer(self) -> float:
        """Return the seconds after which a request to another party fails: at most until the party counts as silent.

        Otherwise the initiator would notice the silence only after the party has given up."""
        return min(self.remote_request_timeout, self.party_silence)


_MAY_BE_ZERO = frozenset({
    "idle_heartbeat_interval", "stop_grace", "longest_stop", "retry_wait", "queue_passes", "resource_waiting_timeout",
})  # fmt: skip
"""The limits that may be 0; no other interval or bound may."""

_LONGEST_AGEING = 1e9      # seconds: a thousand times this still fits into the database


@dataclass(frozen=True)
class Retention:
    """How long old data is kept: days since the end, the last line, or the creation; 0: for ever."""

    finished_jobs_days: float = 30.0     # rows, folders of the job and its workers, results of its tasks
    job_logs_days: float = 30.0
    job_logs_max_bytes: int = 20 << 30   # for all jobs together, the oldest are removed first; 0: no limit
    output_tables_days: float = 0.0
    record_rows_days: float = 0.0        # until entries of the record move into files
    record_texts_days: float = 0.0       # until texts and salts beside entries of the record are erased
    most_finished_jobs: int = 0          # the oldest are removed first; 0: no limit


_LEAST_CEILINGS = {
    "max_attempts": 1, "max_interruptions": 0, "retry_duration": 1, "job_timeout": 1, "task_timeout": 1,
    "task_cores": 1, "task_memory": 0, "task_gpus": 0, "replicas": 1, "least_ttl": 1,
}  # fmt: skip
"""The numbers in the section `ceilings`, and the minimum of each."""
_ACTIONS = tuple(action.value for action in PolicyAction)


@collected
def read_limits(section: Section) -> Limits:
    found: dict[str, Any] = {}
    for one in fields(Limits):
        default, may_be_zero = getattr(Limits(), one.name), one.name in _MAY_BE_ZERO
        if one.name == "least_free_disk":
            found[one.name] = _least_free_disk(section)
        elif one.type == "int":
            found[one.name] = section.whole(one.name, default, 0 if may_be_zero else 1)
        else:
            found[one.name] = section.number(one.name, default, 0 if may_be_zero else 0.01)
    section.refuse_others()
    limits = Limits(**found)
    if limits.heartbeat_interval >= limits.party_silence:
        raise BadSettings(
            f"limits.heartbeat_interval: {limits.heartbeat_interval:g} is not below limits.party_silence "
            f"({limits.party_silence:g}): parties would give this server up between two heartbeats"
        )
    if limits.initiator_silence <= limits.party_silence:
        raise BadSettings(
            f"limits.initiator_silence: {limits.initiator_silence:g} is not above limits.party_silence "
            f"({limits.party_silence:g}): the initiator must give up first, so that both sides agree"
        )
    if limits.queue_ageing > _LONGEST_AGEING:
        raise BadSettings(
            f"limits.queue_ageing: {limits.queue_ageing:g} is more than {_LONGEST_AGEING:g} seconds a level"
        )
    return limits


def _least_free_disk(section: Section) -> int | float | None:
    value: int | float | None = section.get("least_free_disk")
    is_share = isinstance(value, float) and 0 < value < 1
    is_bytes = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if value is None or is_share or is_bytes:
        return value
    raise BadSettings(
        f"{section.name('least_free_disk')}: {value!r} is neither a whole number of bytes nor a share above 0 and "
        "below 1, such as 0.05"
    )


def read_retention(section: Section) -> Retention:
    base = Retention()
    found = Retention(
        finished_jobs_days=section.number("finished_jobs_days", base.finished_jobs_days),
        job_logs_days=section.number("job_logs_days", base.job_logs_days),
        job_logs_max_bytes=section.whole("job_logs_max_bytes", base.job_logs_max_bytes),
        output_tables_days=section.number("output_tables_days", base.output_tables_days),
        most_finished_jobs=section.whole("most_finished_jobs", base.most_finished_jobs),
        record_rows_days=section.number("record_rows_days", base.record_rows_days),
        record_texts_days=section.number("record_texts_days", base.record_texts_days),
    )
    if found.record_texts_days and not 0 < found.record_rows_days <= found.record_texts_days:
        section.problems.append(
            f"{section.name('record_texts_days')}: {found.record_texts_days:g} needs "
            f"{section.name('record_rows_days')} of at most as many days, which is {found.record_rows_days:g}"
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
