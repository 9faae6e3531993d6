"""Deliberate bugs in policies, lost parties and what is said of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import fate_flow.core.planning.partial as partial
import fate_flow.core.planning.plan as plan
import fate_flow.core.planning.plan_stop as plan_stop
import fate_flow.core.planning.policy_events as policy_events
from fate_flow.core.model.reasons import Reason
from fate_flow.core.model.status import TaskStatus
from fate_flow.services.participant import job_commands
from fate_flow.services.scheduling import scheduler
from fate_flow.services.upkeep import maintenance
from fate_flow.services.upkeep.maintenance import Maintenance


def rules_do_not_wait() -> AbstractContextManager[Any]:
    keep = policy_events._meets

    def meets(view: Any, occurrence: Any) -> Any:
        found = keep(view, occurrence)
        return replace(found, due=view.now) if found is not None else None

    return patch.object(policy_events, "_meets", meets)


def restarts_are_not_counted() -> AbstractContextManager[Any]:
    return patch.object(policy_events, "refusal", lambda *_: "")


def what_is_overtaken_stands() -> AbstractContextManager[Any]:
    """A share that has begun after all is still taken for one that has not."""

    def of_start(view: Any, rows: Any) -> Any:
        occurrence = policy_events.Occurrence(
            policy_events.PolicyEvent.START_TIMEOUT, rows[0].key.name, rows[0].key.version
        )
        has_begun = rows[0].status is TaskStatus.RUNNING
        return policy_events._asked(view, [occurrence]) if has_begun else []

    return patch.object(policy_events, "_of_start", of_start)


def goes_on_with_too_few() -> AbstractContextManager[Any]:
    return patch.object(partial, "shortage", lambda *_: "")


def who_was_given_up_is_lost_again() -> AbstractContextManager[Any]:
    return patch.object(maintenance, "is_given_up", lambda *_: False)


def who_found_it_out_is_blamed() -> AbstractContextManager[Any]:
    """Of an end that a party took for the initiator's silence."""
    keep = Maintenance._stop

    def stop(self: Any, unit: Any, job: Any, reason: Reason, message: str, caused_by: str = "") -> None:
        notifier = message.partition(" has ended it")[0]
        keep(self, unit, job, reason, message, notifier if reason is Reason.INITIATOR_LOST else caused_by)

    return patch.object(Maintenance, "_stop", stop)


def who_is_cut_off_is_waited_for() -> AbstractContextManager[Any]:
    return patch.object(Maintenance, "party_cut_off", lambda *_: None)


def initiators_get_no_heartbeat() -> AbstractContextManager[Any]:
    """While nothing is to be reported to them nobody notices that they cannot be reached."""
    return patch.object(scheduler, "_runs_for_another", lambda _: False)


def does_not_wait_for_who_comes_back() -> AbstractContextManager[Any]:
    return patch.object(plan, "comes_back", lambda _: False)


def nobody_asks_what_was_kept() -> AbstractContextManager[Any]:
    return patch.object(job_commands, "missing_shares", lambda *_: [])


@contextmanager
def nobody_is_told_who_is_missing() -> Iterator[None]:
    keep = plan_stop.send

    def send(view: Any, seat: Any, kind: Any, argument: str = "", body: Any = None) -> Any:
        described = {key: value for key, value in (body or {}).items() if key != "missing"}
        return keep(view, seat, kind, argument, described)

    with patch.object(plan_stop, "send", send):
        yield
