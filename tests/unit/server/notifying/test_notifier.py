"""What is sent again, what is dropped, and that one receiver holds up no other."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from fate_flow.core.metrics.measures import NOTIFICATIONS, Measure
from fate_flow.core.model.errors import StorageUnavailable
from fate_flow.core.notifications.retrying import LONGEST_AGE, MOST_TRIES
from fate_flow.core.notifications.subscribers import Target
from fate_flow.server.notifying.notifier import Notifier
from fate_flow.server.notifying.sending import SENT, Outcome
from fate_flow.store.values import Delivery, StoredNotification
from tests.kit.notifications.subscribers import ANN, BEN, OPS, a_notification, notifications
from tests.kit.services.hand_server import HandServer
from tests.kit.values import NOW
from tests.kit.waiting import eventually

DOWN = Outcome("connection refused")


class HandSending:
    """A way to send whose receiver does what the test says."""

    def __init__(self) -> None:
        self.outcome = SENT
        self.sent: list[StoredNotification] = []
        self.may_end = threading.Event()
        self.may_end.set()

    def send(self, one: StoredNotification) -> Outcome:
        self.sent.append(one)
        self.may_end.wait(60)
        return self.outcome

    def abort(self) -> None:
        self.may_end.set()

    @property
    def ids(self) -> list[str]:
        return [one.notification.id for one in self.sent]


class World:
    """A server with stored notifications, and the thread that sends them, by hand."""

    def __init__(self) -> None:
        self.server = HandServer("9999")
        self.counts: list[tuple[str, ...]] = []
        object.__setattr__(self.server.context, "measures", self)
        self.hook, self.mail = HandSending(), HandSending()
        self.seconds, self.is_in_charge, self.why = 100.0, True, dict[Target, str]()
        self.restart()

    def count(self, measure: Measure, *labels: str, by: float = 1.0) -> None:
        if measure is NOTIFICATIONS:
            self.counts += [labels] * int(by)

    def observe(self, measure: Measure, *labels: str, value: float) -> None: ...

    def restart(self) -> None:
        """The process that sends is killed, and another one begins."""
        sendings = {OPS.channel: self.hook, ANN.channel: self.mail}
        self.notifier = Notifier(
            self.server.context, sendings, lambda target: self.why.get(target, ""), lambda: self.is_in_charge,
            lambda: None, lambda: self.seconds,
        )  # fmt: skip

    def add(self, *numbers: int, targets: tuple[Target, ...] = (OPS,), at: int = NOW) -> None:
        with self.server.store.transaction() as tx:
            for number in numbers:
                tx.add_notification(a_notification(number, at), targets)

    def step(self, seconds: float = 0.0) -> None:
        """A step, and what has come of what it began."""
        self.seconds += seconds
        self.notifier.step()
        eventually(lambda: all(one.under_way is None or one.under_way.outcome for one in self.channels), "the try")
        self.notifier.step()

    @property
    def channels(self) -> list[object]:
        return list(self.notifier._channels.values())

    def states(self) -> list[tuple[str, int, str]]:
        return [(one.state.value, one.tries, one.error) for one in notifications(self.server)]


def test_a_notification_is_sent_once_and_counted() -> None:
    world = World()
    world.add(1)
    for _ in range(3):
        world.step(60)
    assert world.hook.ids == [a_notification(1).id]
    assert world.states() == [("sent", 1, "")]
    assert world.counts == [("webhook", "sent")]


def test_a_process_killed_between_sending_and_marking_leaves_it_to_be_sent_again_with_the_same_id() -> None:
    world = World()
    world.add(1)
    world.notifier.step()
    eventually(lambda: world.hook.sent, "the request")
    world.restart()
    world.step()
    assert world.hook.ids == [a_notification(1).id] * 2
    assert world.states() == [("sent", 1, "")]


def test_a_mark_that_cannot_be_stored_is_stored_later_and_nothing_is_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.add(1)
    world.notifier.step()
    eventually(lambda: world.channels[0].under_way.outcome, "the try")  # type: ignore[attr-defined]
    with monkeypatch.context() as broken:
        def refuse(*_: object, **__: object) -> None:
            raise StorageUnavailable("gone")

        broken.setattr(Notifier, "_write", refuse)
        with pytest.raises(StorageUnavailable):
            world.notifier.step()
    world.step()
    assert world.hook.ids == [a_notification(1).id]
    assert world.states() == [("sent", 1, "")]


def test_a_receiver_that_is_down_is_tried_again_with_pauses_until_there_is_an_end() -> None:
    world = World()
    world.hook.outcome = DOWN
    world.add(1)
    world.step()
    world.step(4.9)
    assert len(world.hook.sent) == 1
    world.step(0.2)
    assert world.states() == [("waiting", 2, "connection refused")]
    for _ in range(MOST_TRIES + 2):
        world.step(18_000)
    assert len(world.hook.sent) == MOST_TRIES
    assert world.states() == [("dropped", MOST_TRIES, f"given up after {MOST_TRIES} tries: connection refused")]
    assert world.counts == [("webhook", "failed")] * (MOST_TRIES - 1) + [("webhook", "dropped")]


def test_a_receiver_that_is_down_gets_few_requests_for_many_notifications() -> None:
    world = World()
    world.hook.outcome = DOWN
    world.add(*range(1, 21))
    for _ in range(60):
        world.step(1.0)
    assert len(world.hook.sent) <= 6, "it rests for 2, 4, 8, 16, 32 s"
    world.hook.outcome = SENT
    for _ in range(30):
        world.step(60.0)
    assert {one.state for one in notifications(world.server)} == {Delivery.SENT}


def test_one_that_is_refused_for_itself_holds_up_no_other() -> None:
    world = World()
    world.hook.outcome = replace(DOWN, is_of_channel=False)
    world.add(1, 2)
    world.step()
    world.step()
    assert world.hook.ids == [a_notification(1).id, a_notification(2).id]


def test_one_that_its_receiver_never_takes_is_dropped_at_once() -> None:
    world = World()
    world.hook.outcome = Outcome("HTTP status 410", is_final=True, is_of_channel=False)
    world.add(1)
    world.step()
    assert world.states() == [("dropped", 1, "HTTP status 410")]
    assert world.counts == [("webhook", "dropped")]


def test_a_receiver_that_hangs_holds_up_no_other() -> None:
    world = World()
    world.hook.may_end.clear()
    world.add(1, 2, targets=(OPS, ANN))
    for _ in range(2):
        world.notifier.step()
        eventually(lambda: world.mail.sent, "the mail")
    eventually(lambda: world.notifier.step() and len(world.mail.sent) == 2, "the second mail")
    eventually(lambda: world.hook.sent, "the request")         # of another thread, which may be later than the mails
    assert len(world.hook.sent) == 1
    world.hook.may_end.set()


@pytest.mark.parametrize(("at", "why"), [(NOW - LONGEST_AGE - 1, "it is older than 24 h"), (NOW, "revoked")])
def test_what_nobody_is_to_get_any_more_is_dropped_unsent(at: int, why: str) -> None:
    world = World()
    world.why = {ANN: "revoked"} if at == NOW else {}
    world.add(1, targets=(ANN,), at=at)
    world.add(2, targets=(BEN,))
    world.step()
    assert world.mail.ids == [a_notification(2).id]
    assert world.states() == [("dropped", 0, why), ("sent", 1, "")]


def test_a_target_that_is_not_configured_any_more_gets_nothing() -> None:
    world = World()
    world.add(1, targets=(Target("webhook/old"),))
    world.step()
    assert world.states() == [("dropped", 0, "its target is not in the configuration any more")]


def test_a_process_that_does_not_schedule_sends_nothing() -> None:
    world = World()
    world.is_in_charge = False
    world.add(1)
    world.step()
    assert world.hook.sent == []
    world.is_in_charge = True
    world.step()
    assert world.states() == [("sent", 1, "")]


def test_the_table_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("MOST_WAITING", 2), ("MOST_ENDED", 3)):
        monkeypatch.setattr(f"fate_flow.server.notifying.notifier.{name}", most)
    world = World()
    world.hook.outcome = DOWN
    world.add(*range(1, 6))
    world.step()
    world.step(10.0)
    assert [state for state, _, _ in world.states()] == ["dropped"] * 3 + ["waiting"] * 2
    assert world.counts.count(("webhook", "dropped")) == 3
    world.hook.outcome = SENT
    for _ in range(4):
        world.step(60.0)
    assert [state for state, _, _ in world.states()] == ["dropped", "sent", "sent"]
