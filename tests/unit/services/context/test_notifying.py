"""Notifications are stored with what they are about, once, and only for who is to get them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.approval import ApprovalRule
from fate_flow.core.model.job import CommandKind as K
from fate_flow.core.model.peer import PeerTrouble
from fate_flow.core.model.reasons import Reason
from fate_flow.core.notifications.notification import Occasion
from fate_flow.core.notifications.subscribers import Subscribers
from fate_flow.core.record.comparison import Finding, Outcome
from fate_flow.core.record.offline.evidence import Evidence
from fate_flow.services.context.notifying import notify_of_evidence, notify_of_findings
from fate_flow.services.context.unit_of_work import UnitOfWork
from fate_flow.services.participant.ends import end_job_here
from fate_flow.services.scheduling.events import PartyFails
from fate_flow.services.scheduling.silences import Silences
from tests.kit.job_documents import BOTH
from tests.kit.notifications.subscribers import ANN, BEN, OPS, a_person, notifications, notified
from tests.kit.services.hand_scheduler import chosen
from tests.kit.services.hand_server import HandServer
from tests.kit.services.hand_use_cases import Harness
from tests.kit.services.party_commands import command, create
from tests.kit.values import JOB_ID, NOW

ASKS = ApprovalRule(True, people=2)


def a_host(approval: ApprovalRule = ASKS) -> HandServer:
    host = notified(HandServer("10000", approval=approval))
    for one in (create(), replace(command(K.STATUS), argument="waiting")):
        assert host.handle(one).is_ok
    return host


def submitted(server: HandServer, by: str = "ann", name: str = "") -> None:
    harness = Harness(server)
    harness.meanwhile = lambda: harness.decide(0, "")
    harness.use_cases.submits.submit(JOB_ID, server.parsed(replace(BOTH, name=name)), by=by)


def stopped(server: HandServer) -> None:
    """A job that waits ends at once."""
    with server.unit() as unit:
        stop(unit)


def stop(unit: UnitOfWork) -> None:
    for row in unit.tx.jobs_here(JOB_ID):
        end_job_here(unit, row, Reason.STOPPED_BY_USER, "stopped: password=hidden")


def test_a_job_that_waits_for_approval_is_for_all_who_may_approve() -> None:
    found = notifications(a_host())
    assert [one.target for one in found] == [OPS, ANN, BEN]
    assert {one.notification.occasion for one in found} == {Occasion.APPROVAL_NEEDED}
    about = found[0].notification
    assert about.sentence == f"Job {JOB_ID} of guest 9999 waits for the approval of this party."
    assert (about.partner, about.job_id, about.run) == ("9999", JOB_ID, 0)


def test_the_first_of_two_approvals_asks_the_second_person() -> None:
    host = a_host()
    Harness(host).use_cases.approvals.approve(JOB_ID, "", "ann")
    new = notifications(host)[3:]
    assert [one.target for one in new] == [OPS, BEN]
    assert "was approved by ann: a second person" in new[0].notification.sentence
    Harness(host).use_cases.approvals.approve(JOB_ID, "", "ben")
    assert len(notifications(host)) == 5


def test_what_needs_no_approval_is_not_notified() -> None:
    assert notifications(a_host(ApprovalRule())) == []


def test_the_end_of_a_job_is_stored_with_it_and_names_no_message() -> None:
    server = notified(HandServer("9999"))
    submitted(server, name="churn\r\nBcc: x")
    assert notifications(server) == []
    stopped(server)
    found = notifications(server)
    assert [one.target for one in found] == [OPS, ANN]
    about = found[0].notification
    assert (about.job_name, about.status, about.reason) == ("churn  Bcc: x", "canceled", "stopped_by_user")
    assert about.sentence == f"Job {JOB_ID} ended as canceled: a user stopped it (the cause is at guest 9999)."
    assert "hidden" not in repr(found)


def test_what_is_undone_is_not_notified() -> None:
    server = notified(HandServer("9999"))
    submitted(server)

    def fails() -> None:
        with server.unit() as unit:
            stop(unit)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert notifications(server) == []


def test_a_participant_is_notified_of_the_end_of_anothers_job_once() -> None:
    host = notified(HandServer("10000"), Subscribers({OPS.channel: frozenset({Occasion.JOB_ENDED})}))
    for one in (create(), replace(command(K.STATUS), argument="waiting")):
        assert host.handle(one).is_ok
    assert host.handle(replace(command(K.STATUS), argument="canceled")).is_ok
    (found,) = notifications(host)
    assert (found.target, found.notification.partner) == (OPS, "9999")


def test_nobody_is_notified_where_nobody_wants_it() -> None:
    server = notified(HandServer("9999"), Subscribers(people={"ann": a_person("ann", Occasion.CONTRADICTION)}))
    submitted(server)
    stopped(server)
    assert notifications(server) == []


def test_evidence_against_a_party_is_notified_once() -> None:
    server = notified(HandServer("9999"))
    one = Evidence("10000", True, "root/with/9999/1", 7, "first note", "second note", NOW)
    for _ in range(2):
        with server.store.transaction() as tx:
            notify_of_evidence(server.context, tx, one)
    found = notifications(server)
    assert [each.target for each in found] == [OPS, ANN, BEN]
    assert "two different pasts" in found[0].notification.sentence
    assert "note" not in repr(found[0].notification)


def test_what_a_comparison_accuses_somebody_of_is_notified_once() -> None:
    server = notified(HandServer("9999"))
    agreed, doubt = Finding(Outcome.AGREED, "1"), Finding(Outcome.IN_DOUBT, "2")
    missing = [Finding(Outcome.MISSING, number, ("10000",), "why") for number in ("3", "4")]
    altered = Finding(Outcome.ALTERED, "5", ("9999", "10000"), "why")
    for found in ([agreed, doubt], [agreed, *missing, altered], [altered, *missing, doubt]):
        with server.store.transaction() as tx:
            notify_of_findings(server.context, tx, "10000", found)
    stored = notifications(server)
    assert [each.target for each in stored] == [OPS, ANN, BEN]
    assert "with the record of party 10000" in stored[0].notification.sentence
    assert "(missing: 2, altered: 1)" in stored[0].notification.sentence
    with server.store.transaction() as tx:
        notify_of_findings(server.context, tx, "10000", missing)
    assert len(notifications(server)) == 6


class Partners:
    """A server whose scheduler looks at its partners."""

    def __init__(self) -> None:
        self.server = notified(HandServer("9999"))
        self.silences = Silences(self.server.context)
        self.steady = 1_000_000

    def restart(self) -> None:
        self.silences = Silences(self.server.context)

    def look(self, *troubles: PeerTrouble, after: int = 0) -> list[str]:
        """Return the statuses of which people were notified, over a webhook."""
        self.steady += after
        self.server.steady = self.steady
        with self.server.unit() as unit:
            self.silences.look(unit, troubles)
        return [one.notification.status for one in notifications(self.server) if one.target == OPS]


def test_a_partner_is_silent_once_for_each_silence() -> None:
    world = Partners()
    silent = PeerTrouble("10000", silent_since=world.steady)
    assert world.look(silent, after=59_000) == []
    assert world.look(silent, after=2_000) == ["silent"]
    assert world.look(silent, after=90_000) == ["silent"]
    about = notifications(world.server)[0].notification
    assert (about.partner, about.sentence) == ("10000", "Party 10000 has not answered for 61 s.")


def test_the_scheduler_looks_at_its_partners_at_each_poll() -> None:
    process = chosen(notified(HandServer("9999")))
    process.scheduler.step([PartyFails("10000", 0.0, "no answer in time")])
    process.scheduler.poll()
    assert notifications(process.server) == []
    process.seconds += 61.0
    process.scheduler.poll()
    process.scheduler.poll()
    assert [one.target for one in notifications(process.server)] == [OPS, ANN, BEN]


def test_a_restart_takes_nothing_back_and_repeats_nothing() -> None:
    world = Partners()
    silent = PeerTrouble("10000", cut_off_since=world.steady)
    world.look(silent, after=60_000)
    world.restart()
    assert world.look(after=5_000) == ["silent"]
    assert world.look(silent, after=90_000) == ["silent"]


def test_a_partner_that_answers_for_as_long_answers_again() -> None:
    world = Partners()
    silent = PeerTrouble("10000", silent_since=world.steady)
    world.look(silent, after=60_000)
    assert world.look() == ["silent"]
    assert world.look(after=59_000) == ["silent"]
    world.server.now = NOW + 200_000
    assert world.look(after=1_000) == ["silent", "answers"]
    world.look(PeerTrouble("10000", silent_since=world.steady), after=60_000)
    assert world.look(PeerTrouble("10000", silent_since=world.steady - 60_000)) == ["silent", "answers", "silent"]
    assert len({one.notification.id for one in notifications(world.server)}) == 3

