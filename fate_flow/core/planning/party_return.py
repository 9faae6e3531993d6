"""A job that lost a party and is asked to wait for its return: it begins again from where it was, in its next run.

Wanted by `party_lost` in `retry.on_events` of the job. The job ends as it would, gives its cores back everywhere, and
waits in the same transaction: no list of its initiator shows it ended. What had succeeded is kept, unless a party says
that it has not kept its share; that and what needs it is made again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from fate_flow.core.model.dag import downstream_of
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.retry import RetryEvent
from fate_flow.core.model.status import JobStatus
from fate_flow.core.planning.actions import Action, BeginAgain, NewVersion, Why
from fate_flow.core.planning.rerun import KEPT, plan_again, tell_tasks
from fate_flow.core.planning.view import JobView, leads, plain_v1_parties

LOSSES = frozenset({Reason.PARTY_UNREACHABLE, Reason.INITIATOR_LOST})


def comes_back(view: JobView) -> bool:
    """Whether a job that has just ended waits for the return of the party that it lost."""
    return view.job.status is JobStatus.FAILED and will_come_back(view)


def will_come_back(view: JobView) -> bool:
    """Whether a job that ends, or has ended, is to wait for the return of the party that it lost.

    Not where somebody has asked for its end since, nor beside a party that speaks plain v1."""
    job, rule = view.job, view.spec.retry
    is_wanted = RetryEvent.PARTY_LOST in rule.on_events and job.losses < rule.max_interruptions
    is_ended = bool(job.lost_since or job.cancel_requested)
    return job.reason in LOSSES and job.round_number > 0 and is_wanted and not (is_ended or plain_v1_parties(view))


def plan_return(view: JobView) -> Iterator[Action]:
    """It waits until every party has said that it takes part again, and goes on with what it has used up."""
    names = downstream_of(view.spec, frozenset(lead.key.name for lead in leads(view) if lead.status not in KEPT))
    yield from plan_again(view, BeginAgain(_why_it_waits(view), is_loss=True), _versions(view, names))


def _why_it_waits(view: JobView) -> str:
    job, limit = view.job, view.spec.retry.duration
    at_most = f", for {limit:g} s at most" if limit else ""
    return f"waits for the return of a party{at_most}: {job.message}"


def expiry(limit: float) -> str:
    """Why a job that has lost a party waits no longer; `limit`: the seconds that its rule gives it."""
    return f"the party that was lost has not returned within {limit:g} s"


def _versions(view: JobView, names: Collection[str]) -> list[NewVersion]:
    job = view.job
    why = Why(job.reason, job.message, job.caused_by)
    return [
        NewVersion(lead.key.name, lead.key.version + 1, view.fresh_id, lead.auto_retries, 0, lead.tries, why)
        for lead in leads(view)
        if lead.key.name in names
    ]


def plan_missing_shares(view: JobView, names: Collection[str]) -> Iterator[Action]:
    """A party has not kept its share of these tasks, of which the run that begins would read: they are made again."""
    if view.job.status is not JobStatus.WAITING or not view.job.rerun_signal:
        return
    kept = {lead.key.name for lead in leads(view) if lead.status in KEPT}
    versions = _versions(view, downstream_of(view.spec, frozenset(kept.intersection(names))) & kept)
    if versions:
        yield from versions
        yield from tell_tasks(view, versions)
