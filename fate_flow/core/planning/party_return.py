"""Plans for a job that lost a party and waits for its return: it goes on where it was, in its next run.

A job asks for this by `party_lost` in `retry.on_events`. The job ends as usual, releases its cores everywhere, and
waits again in the same transaction, so that no list of its initiator shows it as ended. Tasks that succeeded are kept,
unless a party reports that it has not kept its share; then this task and all that depend on it run again.
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
    """Return whether a job that has just ended waits for the return of its lost party."""
    return view.job.status is JobStatus.FAILED and will_come_back(view)


def will_come_back(view: JobView) -> bool:
    """Return whether a job that ends, or has ended, is to wait for the return of its lost party.

    It is not if a user has asked for its end since, or if a party speaks plain v1."""
    job, rule = view.job, view.spec.retry
    is_wanted = RetryEvent.PARTY_LOST in rule.on_events and job.losses < rule.max_interruptions
    is_ended = bool(job.lost_since or job.cancel_requested)
    return job.reason in LOSSES and job.round_number > 0 and is_wanted and not (is_ended or plain_v1_parties(view))


def plan_return(view: JobView) -> Iterator[Action]:
    """Begin the next run, which waits until every party takes part again. Used-up retries stay used up."""
    names = downstream_of(view.spec, frozenset(lead.key.name for lead in leads(view) if lead.status not in KEPT))
    yield from plan_again(view, BeginAgain(_why_it_waits(view), is_loss=True), _versions(view, names))


def _why_it_waits(view: JobView) -> str:
    job, limit = view.job, view.spec.retry.duration
    at_most = f", for {limit:g} s at most" if limit else ""
    return f"waits for the return of a party{at_most}: {job.message}"


def expiry(limit: float) -> str:
    """Return why a job stops waiting for its lost party; `limit`: the seconds that its rule allows."""
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
    """Run these tasks again in the run that begins, because a party has not kept its shares of them."""
    if view.job.status is not JobStatus.WAITING or not view.job.rerun_signal:
        return
    kept = {lead.key.name for lead in leads(view) if lead.status in KEPT}
    versions = _versions(view, downstream_of(view.spec, frozenset(kept.intersection(names))) & kept)
    if versions:
        yield from versions
        yield from tell_tasks(view, versions)
