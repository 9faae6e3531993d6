"""Entries of the record that move out of the database into files, and what happens to these files."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.record.entry import OWN_LOG, Kind, log_with
from fate_flow.services.context.ports import Context, Keep
from fate_flow.services.record.following import sealed_since
from fate_flow.services.record.proving import file_of_job
from fate_flow.services.record.verifying import LogReport, State, verify_log
from fate_flow.services.upkeep.record_keeper import RecordKeeper
from fate_flow.services.upkeep.retention import RetentionSweeper
from fate_flow.store import segment_files
from fate_flow.store.segment_files import DamagedSegment, SegmentFiles
from fate_flow.store.sql.store import SqlStore, SqlTransaction
from tests.kit.services.hand_server import HandServer
from tests.kit.services.records import KEYS, add, an_entry, sign
from tests.kit.store.sqlite_in_memory import sqlite_in_memory

SIZE = 8         # entries of a segment here
LONG = 2 * 3_600_000     # ms; after which a file that no row names has been left
PEER_LOG = log_with("10000")


class Party:
    """A party with a record in a database and in files."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("fate_flow.services.upkeep.record_keeper.SEGMENT_ENTRIES", SIZE)
        self.home, self.folder = folder, folder / "record"
        database = sqlite_in_memory().database
        self.store = SqlStore(database, segment_files=SegmentFiles(self.home))
        self.server = HandServer(store=self.store)
        self.server.now = time.time_ns() // 1_000_000        # files have times of the clock of the machine
        self.context = self.server.context
        self.keeper = RecordKeeper(self.context, SegmentFiles(self.home), 1, 0)

    def record(self, count: int, log: str = OWN_LOG) -> None:
        add(self.store, [an_entry(f"a{at}", log, f"text {at}") for at in range(count)])

    def move_all(self, keeper: RecordKeeper | None = None) -> list[bool]:
        return [(keeper or self.keeper).move(one) for one in (keeper or self.keeper).due()]

    def seen(self) -> Any:
        """All that readers of the record get, but for entries about segments."""
        with self.store.reading() as tx:
            pages, after = [], 0
            while page := tx.record_after(after, 5):
                pages.append(page)
                after = page[-1].id
            return (
                [one for page in pages for one in page if one.kind != Kind.SEGMENT],
                tx.record_of_job("j1"),
                [tx.sealed_entries(PEER_LOG, 1, first, 6) for first in range(0, 20, 3)],
                [one for one in sealed_since(tx, {}, 1_000)[0] if one.kind != Kind.SEGMENT],
                file_of_job(tx, "j1", False).text,
            )

    def rows(self) -> int:
        return int(self.store.database.execute_sql("SELECT COUNT(*) FROM t_record_entry").fetchone()[0])

    def files(self) -> list[Path]:
        return sorted(one for one in self.folder.rglob("*") if one.is_file())

    def verified(self, log: str = OWN_LOG) -> LogReport:
        with self.store.reading() as tx:
            return verify_log(tx, tx.record_head(log), 1, KEYS)


@pytest.fixture
def party(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Party]:
    found = Party(tmp_path, monkeypatch)
    for count in (5, 7, 6):
        found.record(count)
        found.record(count - 2, PEER_LOG)
    sign(found.store)
    yield found
    found.store.close()


def test_entries_in_files_are_read_as_those_in_the_database(party: Party) -> None:
    before, rows = party.seen(), party.rows()
    assert party.move_all() == [True, True]
    assert party.seen() == before
    assert party.move_all() == [True]
    assert party.seen() == before
    assert party.move_all() == []

    assert party.rows() == rows - 3 * SIZE + 3
    assert [str(one.relative_to(party.folder)).rpartition("-")[0] for one in party.files()] == [
        "own/1/000000000000", "own/1/000000000008", "with-10000/1/000000000000",
    ]
    sign(party.store)
    assert {party.verified(log).state for log in (OWN_LOG, PEER_LOG)} == {State.CONSISTENT}


@pytest.mark.parametrize("reads", ["_rows_of", "of_job_in_files", "_in_files_after"])
def test_entries_that_move_while_they_are_read_are_read_once(
    party: Party, monkeypatch: pytest.MonkeyPatch, reads: str
) -> None:
    """Between a look at rows and one at files, in either order, and not in one state of the database."""
    before, read, moves = party.seen(), getattr(SqlTransaction, reads), [party.keeper]

    def move_and_read(tx: SqlTransaction, *asked: Any) -> Any:
        if moves:
            assert all(party.move_all(moves.pop()))
        return read(tx, *asked)

    monkeypatch.setattr(SqlTransaction, reads, move_and_read)
    assert party.seen() == before
    assert (moves, len(party.files())) == ([], 2)


def test_the_record_says_which_entries_lie_in_a_file(party: Party) -> None:
    party.move_all()
    with party.store.reading() as tx:
        said = [one.content for one in tx.record_after(0, 100) if one.kind == Kind.SEGMENT]
    assert b'"end":8,"first":0,"kind":"segment","of":"own","of_epoch":1,"root":"' in said[0]
    assert b'"of":"with/10000"' in said[1]


@pytest.mark.parametrize("why", ["off", "too new", "not signed"])
def test_what_may_not_move_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    party = Party(tmp_path, monkeypatch)
    party.record(SIZE)
    if why != "not signed":
        sign(party.store)
    entries = {"off": 0, "too new": party.context.clock(), "not signed": 1}[why]
    assert party.move_all(RecordKeeper(party.context, SegmentFiles(party.home), entries, 0)) == []
    party.store.close()


class Crash(Exception):
    pass


def _crash(*_: object, **__: object) -> None:
    raise Crash


def _after(function: Callable[..., Any]) -> Callable[..., Any]:
    def crash(*given: Any, **named: Any) -> None:
        function(*given, **named)
        raise Crash

    return crash


@pytest.mark.parametrize(
    ("owner", "name", "crash"),
    [
        (os, "replace", _crash), (os, "replace", _after(os.replace)), (segment_files, "_sync", _crash),
        (SegmentFiles, "_parsed", _crash), (SqlTransaction, "close_segment", _crash),
        (SqlTransaction, "close_segment", _after(SqlTransaction.close_segment)),
        (SqlTransaction, "add_to_record", _crash),
        (SqlTransaction, "add_to_record", _after(SqlTransaction.add_to_record)),
    ],
)  # fmt: skip
def test_a_crash_at_any_step_loses_nothing(
    party: Party, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, crash: Any
) -> None:
    before, rows = party.seen(), party.rows()
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, crash)
        with pytest.raises(Crash):
            party.move_all()

    assert (party.seen(), party.rows()) == (before, rows)
    again = RecordKeeper(party.context, SegmentFiles(party.home), 1, 0)
    while party.move_all(again):
        pass
    assert party.seen() == before
    party.server.now += LONG
    for one in again.left_over():
        assert again.remove(one)
    assert (len(party.files()), party.seen()) == (3, before)


def test_a_row_that_changes_meanwhile_keeps_all_rows(party: Party, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a text that is erased while the file is written."""
    write = SegmentFiles.write

    def change(files: SegmentFiles, segment: Any, entries: Any) -> Any:
        party.store.database.execute_sql("UPDATE t_record_entry SET f_text = '', f_salt = '' WHERE f_index = 3")
        return write(files, segment, entries)

    monkeypatch.setattr(SegmentFiles, "write", change)
    own, rows = next(party.keeper.due()), party.rows()
    assert (party.keeper.move(own), party.rows()) == (False, rows)
    assert list(party.keeper.left_over()) == []      # its row may come
    party.server.now += LONG
    assert len(list(party.keeper.left_over())) == 1
    assert party.keeper.move(own)


def test_a_file_whose_row_comes_late_stays(party: Party, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one that `fate_flow admin clean` has written while the server cleans up."""
    close, swept = SqlTransaction.close_segment, list[str]()
    sweeper = RetentionSweeper(party.context, Keep(), party.keeper)

    def sweep_before(tx: SqlTransaction, segment: Any, entries: Any) -> bool:
        swept.extend(str(one) for some in sweeper.left_over() for one in some if sweeper.do(one))
        return close(tx, segment, entries)

    before = party.seen()
    monkeypatch.setattr(SqlTransaction, "close_segment", sweep_before)
    assert party.move_all() == [True, True]
    assert (swept, party.seen()) == ([], before)


def test_a_file_is_not_removed_once_it_has_a_row(party: Party, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has stood still for long adds the row between the two looks."""
    with monkeypatch.context() as patch:
        patch.setattr(SqlTransaction, "close_segment", _crash)
        with pytest.raises(Crash):
            party.move_all()
    party.server.now += LONG
    (left,) = party.keeper.left_over()

    assert all(party.move_all())
    assert (party.keeper.remove(left), left.path.exists()) == (False, True)


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "is not the one that was written"),
        (lambda path: path.write_bytes(gzip.compress(b"{}")), "is not the one that was written"),
        (lambda path: path.write_bytes(bytes([*path.read_bytes()[:-1], 1])), "is not the one that was written"),
    ],
)  # fmt: skip
def test_a_file_that_is_gone_or_damaged_is_named(
    party: Party, caplog: pytest.LogCaptureFixture, damage: Callable[[Path], object], text: str
) -> None:
    while party.move_all():
        pass
    sign(party.store)
    path = party.files()[1]
    damage(path)

    report = party.verified()
    assert (report.state, report.broken_at, report.why) == (State.BROKEN, SIZE, f"the file {path} {text}")
    with pytest.raises(DamagedSegment, match=f"{text} .own, epoch 1, entries 8 to 15."):
        party.seen()
    assert party.verified(PEER_LOG).state is State.CONSISTENT

    party.keeper.check_some()
    party.keeper.check_some()
    assert [one.message for one in caplog.records if str(path) in one.message][1:] == []
    assert str(path) in caplog.text


@pytest.mark.parametrize(
    ("log", "change", "index"),
    [
        (OWN_LOG, "UPDATE t_record_entry SET f_content = '{}' WHERE f_log = 'own' AND f_index IN (16, 17)", 16),
        (PEER_LOG, "DELETE FROM t_record_entry WHERE f_log = 'with/10000' AND f_index = 11", 11),
    ],
)
def test_a_row_that_is_gone_or_is_not_what_was_signed_is_named_once(
    party: Party, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, log: str, change: str, index: int
) -> None:
    """All rows are looked at in turn, a page with each pass; entries in files are not among them."""
    monkeypatch.setattr("fate_flow.services.upkeep.record_keeper.PAGE", 4)
    monkeypatch.setattr("fate_flow.services.record.checkpoints.PAGE", 4)
    assert party.move_all() == [True, True]
    looked_at = list[tuple[Any, ...]]()
    read = Context.read

    def look(context: Context, observe: Any, of_one_moment: bool = False) -> Any:
        looked_at.extend([observe.keywords["place"]] if of_one_moment else [])
        return read(context, observe, of_one_moment)

    monkeypatch.setattr(Context, "read", look)
    sweeper = RetentionSweeper(party.context, Keep(), party.keeper)
    for _ in range(5):
        while sweeper.step():
            pass
    assert looked_at == [
        (OWN_LOG, 1, 16), (PEER_LOG, 1, 8), (PEER_LOG, 1, 12), (OWN_LOG, 1, 16), (PEER_LOG, 1, 8)
    ]  # fmt: skip
    party.store.database.execute_sql(change)
    for _ in range(10):
        while sweeper.step():
            pass
    damage = [one.message for one in caplog.records if "damaged" in one.message]
    assert damage == [f"the record is damaged: log {log}, epoch 1: entry {index} is not what was sealed"]


def test_the_file_of_another_database_is_not_believed(party: Party) -> None:
    """Whoever changes the file and the digest in the database is found by what was sealed."""
    party.move_all()
    sign(party.store)
    path = party.files()[0]
    changed = gzip.compress(gzip.decompress(path.read_bytes()).replace(b'"a3\\"', b'"b3\\"'), mtime=0)
    digest = segment_files.sha256(changed).hexdigest()
    path.with_name(f"000000000000-{digest[:16]}.jsonl.gz").write_bytes(changed)
    party.store.database.execute_sql("UPDATE t_record_segment SET f_digest = ? WHERE f_log = 'own'", (digest,))

    report = party.verified()
    assert (report.state, report.broken_at, report.why) == (State.BROKEN, 3, "the entry is not what was sealed")


def test_texts_and_salts_are_erased_and_proofs_stay(party: Party) -> None:
    party.move_all()
    sign(party.store)
    old = party.files()
    sweeper = RetentionSweeper(party.context, Keep(), RecordKeeper(party.context, SegmentFiles(party.home), 1, 1))
    for pieces in sweeper.old_record():
        assert all(map(sweeper.do, pieces))
    assert set(old) < set(party.files()), "whoever verifies the record at this moment may still read them"
    party.server.now += LONG
    for pieces in sweeper.left_over():
        assert all(map(sweeper.do, pieces))

    assert not set(old) & set(party.files())
    with party.store.reading() as tx:
        entries = tx.record_after(0, 100)
        proved = file_of_job(tx, "j1", False)
    assert [one for one in entries if (one.text or one.salt) and one.at == 7] == []
    assert "text 3" not in proved.text
    assert proved.text.count('"proof"') == 30
    assert party.verified().state is State.CONSISTENT
    assert [pieces for pieces in sweeper.old_record() if pieces] == []
