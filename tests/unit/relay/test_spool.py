"""The spool keeps order, keeps what it confirmed, keeps its bounds, whoever dies meanwhile."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fate_flow.core.model.errors import BadRequest, BadSettings, StorageFailed
from fate_flow.relay import spool_registry
from fate_flow.relay.channel_files import Message
from fate_flow.relay.spool import Spool, SpoolLimits
from fate_flow.relay.spool_result import Problem, Refusal
from tests.kit.relay.spool_calls import (
    AGAIN,
    ARBITER,
    BLOCK,
    GUEST,
    HERE,
    HOST,
    NEW,
    PEERS,
    a_session,
    a_spool,
    chunks,
    peek,
    pop,
    push,
    total,
)


@pytest.fixture
def small(tmp_path: Path) -> Spool:
    """Chunks of a block, three blocks unread, eight in all."""
    spool = a_spool(tmp_path / "spool", chunk_bytes=BLOCK, unread_bytes=3 * BLOCK, total_bytes=8 * BLOCK)
    spool.open(HERE, PEERS, "token")
    return spool


# order, repeats, confirming


def test_a_chunk_comes_out_as_it_went_in(spool: Spool) -> None:
    for seq, (data, last) in enumerate([(b"", False), (b"\x00\xff" * 5000, False), (b"end", True)]):
        assert spool.put(HERE, "t", GUEST, seq, last, data) == NEW
        assert spool.get(HERE, "t", GUEST, seq) == Message(data, last)


PUSHES = [
    # stored before, popped before, then pushed: number and bytes, what is said
    (0, None, (0, b"x"), NEW),
    (0, None, (1, b"x"), Problem.SKIPPED),
    (2, None, (2, b"x"), NEW),
    (2, None, (3, b"x"), Problem.SKIPPED),
    (2, None, (1, b"chunk 1"), AGAIN),
    (2, None, (0, b"chunk 0"), AGAIN),
    (2, None, (1, b"other"), Problem.DIFFERENT),
    (3, 2, (1, b"whatever, it is consumed"), AGAIN),
    (3, 2, (2, b"other"), Problem.DIFFERENT),
    (3, 3, (2, b"consumed too"), AGAIN),
    (3, 3, (3, b"x"), NEW),
    (3, 3, (4, b"x"), Problem.SKIPPED),
]


@pytest.mark.parametrize(("stored", "popped", "pushed", "said"), PUSHES)
def test_what_a_push_is_told(
    spool: Spool, stored: int, popped: int | None, pushed: tuple[int, bytes], said: object
) -> None:
    for seq in range(stored):
        assert push(spool, seq) == NEW
    if popped is not None:
        pop(spool, popped)
    assert push(spool, *pushed) == said
    assert push(spool, *pushed) == (AGAIN if said == NEW else said)


def test_the_same_bytes_with_another_end_are_not_the_same(spool: Spool) -> None:
    push(spool, 0, b"x", last=False)
    assert push(spool, 0, b"x", last=True) == Problem.DIFFERENT


POPS = [
    # stored, popped in this order and what each gets
    (0, [(0, None), (1, Problem.SKIPPED)]),
    (1, [(0, b"chunk 0"), (0, b"chunk 0"), (1, None), (1, None), (2, Problem.SKIPPED)]),
    (3, [(0, b"chunk 0"), (1, b"chunk 1"), (0, Problem.SKIPPED), (1, b"chunk 1")]),
    (3, [(2, b"chunk 2"), (1, Problem.SKIPPED), (3, None), (2, Problem.SKIPPED)]),
    (3, [(4, Problem.SKIPPED), (0, b"chunk 0")]),
]


@pytest.mark.parametrize(("stored", "popped"), POPS)
def test_what_a_pop_gets(spool: Spool, stored: int, popped: list[tuple[int, object]]) -> None:
    for seq in range(stored):
        push(spool, seq)
    assert [(seq, pop(spool, seq)) for seq, _ in popped] == popped


def test_a_pop_deletes_what_it_confirms(spool: Spool) -> None:
    for seq in range(5):
        push(spool, seq)
    pop(spool, 0)
    assert chunks(spool) == ["0", "1", "2", "3", "4"]
    pop(spool, 3)
    assert chunks(spool) == ["3", "4"]
    pop(spool, 5)
    assert chunks(spool) == []
    assert total(spool) == BLOCK  # the channel itself


def test_a_peek_confirms_nothing(spool: Spool) -> None:
    push(spool, 0)
    push(spool, 1)
    assert [peek(spool, seq) for seq in (1, 0, 2, 7)] == [b"chunk 1", b"chunk 0", None, None]
    pop(spool, 1)
    assert peek(spool, 0) == Problem.SKIPPED


def test_release_forgets_and_the_numbers_go_on(spool: Spool) -> None:
    for seq in range(3):
        push(spool, seq)
    assert spool.release(HERE, "t", GUEST) is None
    assert chunks(spool) == []
    assert pop(spool, 3) is None
    assert [push(spool, 2), push(spool, 3)] == [AGAIN, NEW]
    assert spool.release(HERE, "never used", GUEST) is None


def test_channels_do_not_mix(spool: Spool) -> None:
    topics = ["t", "T", "t ", "../../etc/passwd", "a/b", "ü" * 256, "\x00", "t.0", "\udcff"]
    for number, topic in enumerate(topics):
        assert push(spool, 0, b"%d" % number, topic) == NEW
    assert spool.put(HERE, "t", HOST, 0, True, b"from myself") == NEW
    assert [pop(spool, 0, topic) for topic in topics] == [b"%d" % n for n in range(len(topics))]


# what is refused


def test_strangers_may_neither_push_nor_pop(spool: Spool) -> None:
    for answer in (
        spool.put(HERE, "t", ARBITER, 0, True, b""),
        spool.get(HERE, "t", ARBITER, 0),
        spool.peek(HERE, "t", ARBITER, 0),
        spool.release(HERE, "t", ARBITER),
    ):
        assert answer == Refusal(Problem.STRANGER, f"arbiter 9999: no such party in session {HERE}")
    assert chunks(spool) == []


@pytest.mark.parametrize(("key", "value"), [
    ("job_id", ""), ("job_id", ".."), ("job_id", "a/b"), ("job_id", "1" * 26), ("task_id", "a b"),
    ("task_id", "ü"), ("task_id", "a\n"), ("incarnation", "."), ("role", "admin"), ("role", "Guest"),
    ("party_id", "-1"), ("party_id", "1" * 11), ("party_id", "\u0661"), ("version", -1), ("version", 1 << 31),
])
def test_no_name_that_could_leave_its_folder(key: str, value: object) -> None:
    with pytest.raises(BadRequest, match=key):
        a_session(**{key: value})


def test_a_job_id_that_could_leave_its_folder_is_not_purged(spool: Spool) -> None:
    with pytest.raises(BadRequest, match="job_id"):
        spool.purge("../sessions")


@pytest.mark.parametrize(("topic", "seq"), [("", 0), ("x" * 257, 0), ("t", -1), ("t", 1 << 62)])
def test_topics_and_numbers_have_bounds(spool: Spool, topic: str, seq: int) -> None:
    for ask in (lambda: spool.put(HERE, topic, GUEST, seq, True, b""), lambda: spool.get(HERE, topic, GUEST, seq)):
        with pytest.raises(BadRequest):
            ask()


@pytest.mark.parametrize("limits", [
    {"chunk_bytes": 0}, {"chunk_bytes": 2 * BLOCK, "unread_bytes": BLOCK}, {"total_bytes": BLOCK},
])
def test_bounds_that_no_chunk_can_meet_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(BadSettings, match="chunk"):
        SpoolLimits(**limits)


# sessions


def test_a_session_that_has_not_started_is_told_apart(spool: Spool) -> None:
    later = a_session(version=1)
    for answer in (
        spool.put(later, "t", GUEST, 0, True, b""), spool.put(later, "t", GUEST, 3, True, b""),
        spool.get(later, "t", GUEST, 0), spool.get(later, "t", GUEST, 3), spool.release(later, "t", GUEST),
    ):
        assert answer == Refusal(Problem.NOT_STARTED, f"session {later}: has not started here")


def test_an_ended_session_is_gone_for_good(spool: Spool) -> None:
    push(spool, 0)
    spool.close(HERE)
    spool.close(HERE)
    assert chunks(spool) == []
    assert total(spool) == 0
    assert [push(spool, 1), pop(spool, 0), peek(spool, 0)] == [Problem.GONE] * 3
    assert isinstance(spool.release(HERE, "t", GUEST), Refusal)
    assert not spool.open(HERE, PEERS, "token")
    assert push(spool, 1) == Problem.GONE


def test_a_push_whose_answer_was_lost_may_be_repeated_after_the_end(spool: Spool) -> None:
    push(spool, 0)
    push(spool, 1)
    pop(spool, 1)
    spool.close(HERE)
    spool.close(HERE)
    assert [push(spool, seq) for seq in range(3)] == [AGAIN, AGAIN, Problem.GONE]
    assert spool.put(HERE, "another topic", GUEST, 0, True, b"") == Refusal(
        Problem.GONE, f"session {HERE}: has ended"
    )
    assert spool.put(HERE, "t", ARBITER, 0, True, b"") == Refusal(Problem.GONE, f"session {HERE}: has ended")
    spool.purge(HERE.job_id)
    assert total(spool) == 0


def test_a_session_closed_before_it_opened_stays_closed(spool: Spool) -> None:
    late = a_session(version=1)
    spool.close(late)
    assert not spool.open(late, PEERS, "late")
    assert spool.session_of("late") is None


def test_opening_again_changes_nothing(spool: Spool) -> None:
    push(spool, 0)
    assert spool.open(HERE, PEERS, "token")
    assert pop(spool, 0) == b"chunk 0"
    assert spool.session_of("token") == HERE


def test_opening_with_another_token_replaces_it(spool: Spool) -> None:
    other = a_spool(Path(spool._root))
    assert other.session_of("token") == HERE
    spool.open(HERE, (*PEERS, ARBITER), "fresh")
    for seen in (spool, other):
        assert [seen.session_of("token"), seen.session_of("fresh")] == [None, HERE]
        assert seen.objection(HERE, ARBITER) is None


def test_a_session_of_an_older_release_has_no_document_until_it_is_opened_again(spool: Spool) -> None:
    name = "fate_v1:" + "1" * 64
    [file] = Path(spool._root).glob("sessions/*/*/session")
    known = json.loads(file.read_text())
    file.write_text(json.dumps({"peers": known["peers"], "token": known["token"]}))
    seen = a_spool(Path(spool._root))
    assert (seen.document_of(HERE), seen.session_of("token")) == ("", HERE)
    assert spool.open(HERE, PEERS, "token", name)
    assert (spool.document_of(HERE), seen.document_of(HERE), seen.session_of("token")) == (name, name, HERE)
    spool.close(HERE)
    assert [seen.document_of(HERE), seen.document_of(a_session(version=9))] == ["", ""]


def test_purge_leaves_nothing(spool: Spool) -> None:
    kept = a_session(job_id="20260102120000")
    spool.open(kept, PEERS, "kept")
    spool.open(a_session(version=1), PEERS, "second")
    push(spool, 0)
    spool.close(a_session(version=1))
    spool.purge(HERE.job_id)
    spool.purge(HERE.job_id)
    assert push(spool, 0) == Problem.NOT_STARTED
    assert [spool.session_of(token) for token in ("token", "second", "kept")] == [None, None, kept]
    assert total(spool) == 0
    assert len(list(Path(spool._root, "tokens").iterdir())) == 1
    assert not list(Path(spool._root, "trash").iterdir())


def test_the_jobs_that_have_left_something_are_known(spool: Spool) -> None:
    closed = a_session(job_id="20260102120000")
    spool.close(closed)
    assert sorted(spool.jobs()) == sorted([HERE.job_id, closed.job_id])
    spool.purge(HERE.job_id)
    assert spool.jobs() == (closed.job_id,)


@pytest.mark.parametrize("writes", [0, 1])
def test_an_open_that_was_killed_is_finished_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """The token is stored first: an open that finds its session stored has nothing left to do."""
    left, replace_file = [None] * writes, spool_registry.write_json

    def until_killed(path: str, document: dict[str, Any]) -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        replace_file(path, document)

    with monkeypatch.context() as patch:
        patch.setattr(spool_registry, "write_json", until_killed)
        with pytest.raises(KeyboardInterrupt):
            a_spool(tmp_path).open(HERE, PEERS, "its token")
    again = a_spool(tmp_path)
    assert again.open(HERE, PEERS, "its token")
    assert again.session_of("its token") == HERE


def test_a_purge_that_was_killed_is_finished_at_the_next_start(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(spool, 0)
    with monkeypatch.context() as patch:
        patch.setattr(spool, "_delete", lambda _: 0)
        spool.purge(HERE.job_id)
    again = a_spool(Path(spool._root))
    assert total(again) == 0
    assert not list(Path(spool._root, "trash").iterdir())
    assert not list(Path(spool._root, "tokens").iterdir())


def test_tokens_are_not_on_disk(spool: Spool) -> None:
    spool.open(a_session(version=1), PEERS, "very-secret")
    files = [path for path in Path(spool._root).rglob("*") if path.is_file()]
    assert not [path for path in files if "very-secret" in path.name or b"very-secret" in path.read_bytes()]


@pytest.mark.parametrize("token", ["", "nobody", "../../sessions", "x" * 100_000, "\udcff"])
def test_a_token_that_nobody_knows(spool: Spool, token: str) -> None:
    assert spool.session_of(token) is None


def test_the_caches_are_bounded(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_registry, "_CACHED", 3)
    for version in range(1, 10):
        spool.open(a_session(version=version), PEERS, f"token {version}")
    for version in range(1, 10):
        assert spool.session_of(f"token {version}") == a_session(version=version)
    assert len(spool._sessions._tokens) <= 3
    assert len(spool._sessions._entries) <= 3


def test_files_that_a_power_failure_emptied_count_as_not_there(spool: Spool) -> None:
    for path in (*Path(spool._root).glob("sessions/*/*/session"), *Path(spool._root, "tokens").iterdir()):
        path.write_text("")
    again = a_spool(Path(spool._root))
    assert again.session_of("token") is None
    assert push(again, 0) == Problem.NOT_STARTED
    again.open(HERE, PEERS, "token")
    assert [again.session_of("token"), push(again, 0)] == [HERE, NEW]


@pytest.mark.parametrize("harm", [os.unlink, lambda path: path.write_bytes(b"")])
def test_a_chunk_that_the_disk_lost_is_an_error_and_no_message(spool: Spool, harm: Callable[[Path], None]) -> None:
    push(spool, 0)
    harm(next(Path(spool._root).glob("sessions/*/*/*.0")))
    with pytest.raises(StorageFailed, match="lost"):
        pop(spool, 0)


# bounds


def test_a_chunk_has_a_bound(small: Spool) -> None:
    assert push(small, 0, b"x" * (BLOCK + 1)) == Problem.TOO_LARGE
    assert push(small, 0, b"x" * BLOCK) == NEW


def test_a_slow_reader_stops_its_writer_only(small: Spool) -> None:
    assert [push(small, seq) for seq in range(4)] == [NEW, NEW, NEW, Problem.BACKLOG]
    assert push(small, 0, topic="another") == NEW
    pop(small, 1)
    assert [push(small, seq) for seq in (0, 3, 4)] == [AGAIN, NEW, Problem.BACKLOG]


def test_a_flood_of_empty_chunks_meets_the_same_bound(small: Spool) -> None:
    answers = [small.put(HERE, "t", GUEST, seq, False, b"") for seq in range(4)]
    assert answers[:3] == [NEW] * 3
    assert isinstance(answers[3], Refusal)


def test_the_server_has_a_bound_over_all_topics(small: Spool) -> None:
    assert [push(small, 0, topic=str(n)) for n in range(5)] == [NEW] * 4 + [Problem.FULL]
    assert push(small, 0, topic="0") == AGAIN
    assert pop(small, 1, topic="0") is None  # one block is free, a new topic takes two
    assert push(small, 0, topic="4") == Problem.FULL
    assert pop(small, 1, topic="1") is None
    assert push(small, 0, topic="4") == NEW
    small.close(HERE)
    assert total(small) == 0


def test_topics_without_end_meet_the_bound_too(small: Spool) -> None:
    for number in range(20):
        push(small, 0, topic=str(number))
        pop(small, 1, topic=str(number))
    assert len(list(Path(small._root).glob("sessions/*/*/*"))) == 7 + 1 + 1      # the file of the session, and its lock
    assert push(small, 1, topic="a number that is not the first makes nothing") == Problem.SKIPPED


def test_a_count_that_drifted_is_mended_before_a_push_is_refused(
    small: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(small._root, "total").write_bytes((8 * BLOCK).to_bytes(8, "little"))
    assert push(small, 0) == Problem.FULL  # counted a moment ago, at start
    monkeypatch.setattr(small, "_recount_at", 0.0)
    assert push(small, 0) == NEW
    assert total(small) == 2 * BLOCK


def test_a_start_counts_what_is_there(small: Spool) -> None:
    push(small, 0)
    push(small, 1)
    for drifted in (b"", b"\xff" * 7 + b"\x00"):
        Path(small._root, "total").write_bytes(drifted)
        a_spool(Path(small._root))
        assert total(small) == 3 * BLOCK
