"""The thread of an export: what it sends, what it sends again, and where it goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fate_flow.core.record.entry import OWN_LOG, log_with
from fate_flow.core.record.shown import ShownEntry
from fate_flow.records.export_state import ExportStates
from fate_flow.server.exporting import exporter as module
from fate_flow.server.exporting.exporter import Exporter, NotTaken
from tests.kit.services.records import add, an_entry
from tests.kit.services.witness_parties import WitnessParty

WITH = log_with("10000")


class Taking:
    """A receiver that takes entries unless `why` says why not; `first` of a page may have arrived then."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.why, self.first = "", 0

    def send(self, entries: Sequence[ShownEntry]) -> None:
        said = [str(one.said["what"]) for one in entries]
        self.taken += said[: self.first] if self.why else said
        if self.why:
            raise NotTaken(self.why)

    def abort(self) -> None: ...


class World:
    def __init__(self, home: Path) -> None:
        self.party, self.receiver, self.states = WitnessParty("9999"), Taking(), ExportStates(home)
        self.may_work, self.ends = True, 0
        self.exporter = self.restarted()

    def restarted(self) -> Exporter:
        self.exporter = Exporter(
            self.party.context, "siem", self.receiver, self.states, lambda: self.may_work, self._end
        )
        return self.exporter

    def _end(self) -> None:
        self.ends += 1

    def add(self, *what: str, log: str = OWN_LOG) -> None:
        add(self.party.store, [an_entry(one, log) for one in what])

    @property
    def waiting(self) -> int:
        return self.states.read("siem").waiting


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    return lambda: [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


def test_all_logs_are_sent_from_their_beginning_and_then_what_is_new(world: World) -> None:
    world.add("a", "b")
    world.add("c", log=WITH)
    world.exporter.step()
    assert world.receiver.taken == ["a", "b", "c"]
    world.exporter.step()
    world.add("d")
    world.exporter.step()
    assert world.receiver.taken == ["a", "b", "c", "d"]


def test_a_server_that_starts_again_goes_on_where_the_last_one_was(world: World) -> None:
    world.add("a")
    world.exporter.step()
    world.add("b")
    world.restarted().step()
    assert world.receiver.taken == ["a", "b"]


def test_what_was_not_taken_is_sent_again_and_said_once(world: World, warned: Callable[[], list[str]]) -> None:
    world.add("a", "b", "c")
    world.receiver.why, world.receiver.first = "connection refused", 1
    pauses = [world.exporter.step() for _ in range(9)]
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert (world.waiting, world.states.read("siem").error) == (3, "connection refused")
    world.receiver.why = ""
    world.restarted().step()
    assert world.receiver.taken == ["a"] * 9 + ["a", "b", "c"]
    assert (world.waiting, world.states.read("siem").error) == (0, "")
    assert warned() == [
        "record.exports.siem: entries are not taken, and are sent again later: connection refused",
    ]


def test_that_it_takes_them_again_is_said_and_counts_also_if_nothing_is_new(
    world: World, warned: Callable[[], list[str]]
) -> None:
    world.add("a")
    world.receiver.why = "x"
    world.exporter.step()
    world.receiver.why = ""
    world.exporter.step()
    assert warned()[-1] == "record.exports.siem: the receiver takes entries again"
    assert world.states.read("siem").error == ""


def test_pages_are_of_a_size_and_follow_each_other_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAGE", 2)
    world.add("a", "b", "c", "d", "e")
    assert [world.exporter.step() for _ in range(3)] == [0, 0, 1]
    assert world.receiver.taken == ["a", "b", "c", "d", "e"]


def test_only_the_process_that_schedules_sends_and_another_one_goes_on_from_it(world: World) -> None:
    world.add("a")
    world.exporter.step()
    other, world.may_work = world.exporter, False
    world.add("b")
    assert (other.step(), world.receiver.taken) == (2, ["a"])
    world.may_work = True
    world.restarted().step()
    world.may_work = False
    other.step()
    world.may_work = True
    world.add("c")
    other.step()
    assert world.receiver.taken == ["a", "b", "c"]


def test_a_restored_backup_is_said_and_what_comes_after_it_is_sent(
    world: World, warned: Callable[[], list[str]]
) -> None:
    world.add("a", "b")
    backup = world.party.backup()
    world.add("c")
    world.exporter.step()
    world.party.restore(backup)
    world.restarted().step()
    world.add("d")
    world.exporter.step()
    assert world.receiver.taken == ["a", "b", "c", "d"]
    [said] = warned()
    assert said.startswith("record.exports.siem: own ends at epoch 1, entry 2, before what was sent already")


def test_entries_that_are_not_sealed_yet_wait(world: World) -> None:
    with world.party.store.transaction() as tx:
        tx.add_to_record([an_entry("a")])
    world.exporter.step()
    assert world.receiver.taken == []


def test_what_waits_is_counted_over_epochs(world: World) -> None:
    world.add("a", "b", "c")
    world.exporter.step()
    with world.party.store.transaction() as tx:
        assert tx.open_epoch(tx.record_head(OWN_LOG), 3)
    world.receiver.why = "x"
    world.add("d", "e")
    world.add("f", log=WITH)
    world.exporter.step()
    assert world.waiting == 3
    world.receiver.why = ""
    world.exporter.step()
    assert (world.waiting, world.receiver.taken[-3:]) == (0, ["d", "e", "f"])


def test_a_file_that_somebody_else_has_written_stops_the_export_and_says_what_to_do(
    world: World, tmp_path: Path
) -> None:
    world.add("a")
    world.exporter.step()
    path = tmp_path / "record" / "exports" / "siem.json"
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("{}")
    with pytest.raises(ValueError, match="remove it to send all entries again"):
        world.restarted().step()
    assert world.states.all(["siem"]) == {}
