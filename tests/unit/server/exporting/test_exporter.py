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
from fate_flow.server.exporting.exporter import Exporter
from fate_flow.server.exporting.receiver import NotTaken
from fate_flow.services.record.following import waiting
from tests.kit.services.records import add, an_entry
from tests.kit.services.witness_parties import WitnessParty

WITH = log_with("10000")


class Taking:
    """A receiver that takes entries unless `why` says why not; `first` of a page may have arrived then."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.pages: list[int] = []
        self.why, self.first, self.most = "", 0, 1 << 30

    def send(self, entries: Sequence[ShownEntry]) -> None:
        said = [str(one.said["what"]) for one in entries]
        if len(said) > self.most:
            raise NotTaken("the collector answers with HTTP status 413")
        self.pages.append(len(said))
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
        with self.party.store.reading() as tx:
            return waiting(tx, self.states.read("siem").position)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    return lambda: [
        one.getMessage() for one in caplog.records if one.name == module.__name__ and one.levelno >= logging.WARNING
    ]


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
        "record.exports.siem: entries are not sent; it is tried again: connection refused",
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
    world.restarted()
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
    assert said.startswith("record.exports.siem: logs end before what was sent already (own at epoch 1, entry 2)")


def test_it_is_said_once_also_if_the_receiver_is_down(world: World, warned: Callable[[], list[str]]) -> None:
    world.add("a", "b")
    backup = world.party.backup()
    world.add("c")
    world.exporter.step()
    world.party.restore(backup)
    world.receiver.why = "x"
    world.add("y", log=WITH)
    for _ in range(3):
        world.exporter.step()
    assert sum("entries were lost" in one for one in warned()) == 1


@pytest.mark.parametrize("restarts", [False, True])
def test_a_restored_backup_that_has_grown_on_is_sent_again_with_its_epoch(
    world: World, warned: Callable[[], list[str]], restarts: bool
) -> None:
    world.add("a", "b")
    backup = world.party.backup()
    world.add("c")
    world.add("w", log=WITH)
    world.exporter.step()
    world.party.restore(backup)
    world.add("new 1", "new 2")
    if restarts:
        world.restarted()
    world.exporter.step()
    assert world.receiver.taken == ["a", "b", "c", "w", "a", "b", "new 1", "new 2"]
    assert any("own: other entries are here than were sent" in one for one in warned())
    world.add("d")
    world.exporter.step()
    assert world.receiver.taken[8:] == ["d"]


def test_a_page_that_is_too_large_for_the_receiver_becomes_smaller(world: World) -> None:
    world.add(*"abcdefghij")
    world.receiver.most = 3
    while len(world.receiver.taken) < 10:
        world.exporter.step()
    assert world.receiver.taken == list("abcdefghij")
    assert max(world.receiver.pages) <= 3


def test_a_page_has_no_more_bytes_than_it_may_and_one_entry_at_least(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PAGE_BYTES", 250)
    for log in (OWN_LOG, WITH):
        add(world.party.store, [an_entry(one, log, text="x" * size) for one, size in (("s", 10), ("l", 900), ("t", 1))])
    while world.exporter.step() == 0:
        pass
    assert (world.receiver.pages, world.waiting) == ([1] * 6, 0)
    assert world.receiver.taken == ["s", "l", "t", "s", "l", "t"]


def test_a_position_that_cannot_be_kept_does_not_send_a_page_again(
    world: World, monkeypatch: pytest.MonkeyPatch, warned: Callable[[], list[str]]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ExportStates, "write", full)
    for what in "abc":
        world.add(what)
        world.exporter.step()
    assert world.receiver.taken == ["a", "b", "c"]
    assert len(warned()) == 1


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
    world: World, tmp_path: Path, warned: Callable[[], list[str]]
) -> None:
    world.add("a")
    world.exporter.step()
    path = tmp_path / "record" / "exports" / "siem.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["siem.json"]
    for text in ("{}", "[", '{"position": {"own": [1, -1]}, "last": {}, "error": ""}', "[" * 100_000):
        path.write_text(text)
        world.restarted().step()
        assert "remove it to send all entries again" in warned()[-1]
    path.unlink()
    world.exporter.step()
    assert world.receiver.taken == ["a", "a"]


def test_the_end_of_a_server_is_no_failure(world: World, warned: Callable[[], list[str]]) -> None:
    world.add("a")
    world.exporter.end()
    world.receiver.why = "this server ends"
    world.exporter.step()
    assert warned() == []
    assert world.waiting == 1
