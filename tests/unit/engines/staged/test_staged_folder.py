"""The folder of a staged worker at the server: one claim, files in their places alone, one end, also after a crash."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from fate_flow.engines.local.worker import CLAIMED, EXIT, RESULT, SECOND, Exit, Stop, write_atomically
from fate_flow.engines.staged import folder as staged_folder
from fate_flow.engines.staged.documents import INCOMING, REDEEMED, STATE, Staged, back_home
from fate_flow.engines.staged.folder import Incoming, Refusal, StagedFolder
from fate_flow.engines.staged.places import BadPlace, StagedFile, checked_place
from tests.kit.waiting import SECONDS

OWN = "jobs/j/w"
ENDED = Exit(0, None, "exited")
STAGED = Staged({f"{OWN}/config.yaml": ""}, {}, {}, (re.compile(r"data/output_j/t_[0-9]{1,6}(?:\.sqlite|/.+)"),))


@pytest.fixture
def worker(tmp_path: Path) -> StagedFolder:
    (tmp_path / OWN).mkdir(parents=True)
    return StagedFolder(tmp_path / OWN, tmp_path, 1000)


def sent(worker: StagedFolder, at: str, data: bytes) -> StagedFile:
    worker.take(at, 0, data)
    file = StagedFile(at, len(data), sha256(data).hexdigest())
    worker.verify(file)
    return file


def test_one_runner_has_the_claim_and_may_ask_for_it_again(worker: StagedFolder) -> None:
    worker.claim("a" * 32)
    worker.claim("a" * 32)
    with pytest.raises(Refusal, match="another runner has claimed this worker") as refused:
        worker.claim("b" * 32)
    assert refused.value.status == 409
    with pytest.raises(Refusal):
        worker.check("b" * 32)


def test_a_second_job_of_a_claimed_worker_is_noted_and_a_repeated_claim_is_not(worker: StagedFolder) -> None:
    """What the cluster then says of the second one does not tell how the first one is."""
    worker.claim("a" * 32)
    worker.claim("a" * 32)
    assert not (worker.folder / SECOND).exists()
    with pytest.raises(Refusal):
        worker.claim("b" * 32)
    assert (worker.folder / SECOND).exists()
    assert SECOND in STATE, "no worker may send it"


@pytest.mark.parametrize("is_claimed", [False, True])
def test_a_claim_token_counts_once_and_a_second_use_ends_the_worker(worker: StagedFolder, is_claimed: bool) -> None:
    assert REDEEMED in STATE, "no worker may send it"
    worker.redeem("a" * 32)
    worker.redeem("a" * 32)
    if is_claimed:
        worker.claim("a" * 32)
    assert not (worker.folder / EXIT).exists()
    with pytest.raises(Refusal, match="was used twice") as refused:
        worker.redeem("b" * 32)
    assert refused.value.status == 409
    found = Exit.read(worker.folder)
    assert found is not None
    assert (found.cause, found.message) == ("not_started", refused.value.text)
    for runner in ("a" * 32, "b" * 32):
        with pytest.raises(Refusal):
            worker.claim(runner)
    if is_claimed:
        worker.finish(ENDED, [], "/far", STAGED)
    assert Exit.read(worker.folder) == found, "nothing of either is taken"


def test_a_claim_of_the_server_is_no_second_job(worker: StagedFolder) -> None:
    worker.refuse("no")
    with pytest.raises(Refusal):
        worker.claim("b" * 32)
    assert not (worker.folder / SECOND).exists()


def test_a_worker_that_has_ended_is_told_so_and_leaves_nothing_more(worker: StagedFolder) -> None:
    worker.claim("a" * 32)
    write_atomically(worker.folder / EXIT, Exit(None, None, "lost").to_json())     # its cluster said so
    for ask in (worker.check, worker.claim):
        with pytest.raises(Refusal, match="has ended for the server") as refused:
            ask("a" * 32)
        assert refused.value.status == 410
    worker.check_claim("a" * 32)
    worker.finish(ENDED, [], "/far", STAGED)       # an end is repeated if its answer was lost
    assert Exit.read(worker.folder) == Exit(None, None, "lost")


def test_a_worker_that_was_stopped_before_is_claimed_by_nobody(worker: StagedFolder) -> None:
    write_atomically(worker.folder / "stop.json", Stop(1.0).to_json())
    with pytest.raises(Refusal):
        worker.claim("a" * 32)
    found = Exit.read(worker.folder)
    assert found is not None
    assert found.cause == "stopped"


def test_a_piece_counts_once_and_the_rest_goes_on_where_it_ended(worker: StagedFolder) -> None:
    assert worker.take("x/y", 0, b"abc") == 3
    assert worker.take("x/y", 0, b"abc") == 3
    assert worker.take("x/y", 5, b"fg") == 3
    assert worker.take("x/y", 3, b"de") == 5
    worker.verify(StagedFile("x/y", 5, sha256(b"abcde").hexdigest()))
    log = worker.folder / "log"
    for offset in (0, 0, 4, 3):
        worker.grow(log, "log", offset, b"one"[: 3 if offset != 3 else 1])
    assert log.read_bytes() == b"oneo"
    with pytest.raises(Refusal, match=r"limits\.staged_output_max_bytes") as refused:
        worker.take("big", 0, b"x" * 1001)
    assert refused.value.status == 413


def test_a_piece_of_a_log_that_is_sent_twice_at_once_is_there_once(
    worker: StagedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first request is still at work when the agent has given it up and sends the piece again."""
    worker = replace(worker, known=Incoming(worker.folder))
    again = threading.Thread(target=lambda: worker.grow(worker.folder / "log", "log", 0, b"one"))

    def write(path: Path, text: str, **more: Any) -> None:
        if not again.ident:
            again.start()
            again.join(0.2)                # it ends here only if it does not wait for the first one
        write_atomically(path, text, **more)

    monkeypatch.setattr("fate_flow.engines.staged.folder.write_atomically", write)
    worker.grow(worker.folder / "log", "log", 0, b"one")
    again.join(SECONDS)
    assert (worker.folder / "log").read_bytes() == b"one"


def test_other_bytes_than_were_sent_are_thrown_away(worker: StagedFolder) -> None:
    worker.take("x", 0, b"abX")
    with pytest.raises(Refusal, match="with other bytes") as refused:
        worker.verify(StagedFile("x", 3, sha256(b"abc").hexdigest()))
    assert refused.value.status == 422
    assert worker.take("x", 0, b"abc") == 3
    worker.verify(StagedFile("x", 3, sha256(b"abc").hexdigest()))


def test_what_was_sent_is_counted_without_another_look_at_the_folder(
    worker: StagedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Path] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: looks.append(path) or scandir(path))
    sent(worker, "earlier", b"x" * 100)
    known = replace(worker, known=Incoming(worker.folder))
    looks.clear()
    for number in range(8):
        sent(known, f"f{number}", b"x" * 100)
    assert looks == []
    known.take("damaged", 0, b"x" * 50)
    with pytest.raises(Refusal, match="with other bytes"):
        known.verify(StagedFile("damaged", 50, "0" * 64))
    sent(known, "last", b"x" * 100)                  # as many bytes as there may be, without the damaged ones
    with pytest.raises(Refusal, match=r"limits\.staged_output_max_bytes"):
        known.take("more", 0, b"x")
    again = Incoming(worker.folder)
    assert known.known is not None
    assert (again.files, again.bytes) == (known.known.files, known.known.bytes)


def test_a_worker_sends_so_many_files_and_no_more_also_empty_ones(
    worker: StagedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_folder, "MOST_FILES", 3)
    for number in range(3):
        sent(worker, f"f{number}", b"")
    empty = StagedFile("one more", 0, sha256(b"").hexdigest())
    for make in (lambda: worker.take("one more", 0, b""), lambda: worker.verify(empty)):
        with pytest.raises(Refusal, match="more than 3 files") as refused:
            make()
        assert refused.value.status == 413


@pytest.mark.parametrize("at", [
    f"{OWN}/exit.json", f"{OWN}/claimed", f"{OWN}/config.yaml", f"{OWN}/incoming/x", f"{OWN}/.x", "jobs/j/other/x",
    "data/it/t.sqlite", "data/output_j/t_x.sqlite", "keys/root.pem", "fate_flow.sqlite",
])  # fmt: skip
def test_a_file_goes_nowhere_else(worker: StagedFolder, at: str) -> None:
    file = sent(worker, at, b"evil")
    with pytest.raises(Refusal, match="is no place where this worker may leave a file"):
        worker.finish(ENDED, [file], "/r", STAGED)
    assert not (worker.home / at).exists() or (worker.home / at).read_bytes() != b"evil"
    assert not (worker.folder / EXIT).exists()


@pytest.mark.parametrize("at", ["", "/etc/passwd", "../x", "a/../b", "a//b", "./a", "a/", "a\0b", None, 3, "a" * 2000])
def test_what_is_no_place_is_refused(at: object) -> None:
    with pytest.raises(BadPlace):
        checked_place(at)


def test_a_link_leads_nowhere(worker: StagedFolder, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (worker.folder / "out").symlink_to("/tmp")
    file = sent(worker, f"{OWN}/out/x", b"evil")
    with pytest.raises(Refusal, match="leads out of the home"):
        worker.finish(ENDED, [file], "/r", STAGED)


def test_a_table_that_is_there_is_not_replaced(worker: StagedFolder) -> None:
    at = "data/output_j/t_0.sqlite"
    (worker.home / at).parent.mkdir(parents=True)
    (worker.home / at).write_bytes(b"other")
    with pytest.raises(Refusal, match="exists, with another content"):
        worker.finish(ENDED, [sent(worker, at, b"mine")], "/r", STAGED)
    (worker.home / at).write_bytes(b"mine")
    worker.finish(ENDED, [sent(worker, at, b"mine")], "/r", STAGED)
    assert Exit.read(worker.folder) == ENDED


def crashing(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is killed once, before this write."""
    def killed(path: Path, *args: Any, **kwargs: Any) -> None:
        if Path(path).name == step:
            monkeypatch.setattr(staged_folder, "write_atomically", write_atomically)
            raise KeyboardInterrupt
        write_atomically(path, *args, **kwargs)

    monkeypatch.setattr(staged_folder, "write_atomically", killed)


@pytest.mark.parametrize("step", [RESULT, EXIT])
def test_outputs_are_there_once_wherever_the_server_is_killed(
    worker: StagedFolder, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    result = {"io_meta": {"outputs": {"data": {"t": [{"uri": "standalone:///r/data/output_j/t_0"}]}}}}
    files = [
        sent(worker, f"{OWN}/work/a", b"a"), sent(worker, f"{OWN}/{RESULT}", json.dumps(result).encode()),
        sent(worker, "data/output_j/t_0.sqlite", b"table"),
    ]  # fmt: skip
    again: Callable[[], None] = lambda: worker.finish(ENDED, files, "/r", STAGED)  # noqa: E731
    crashing(step, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        again()
    assert not (worker.folder / EXIT).exists()
    for _ in range(2):
        for file in files:
            worker.verify(file)
        again()
    assert Exit.read(worker.folder) == ENDED
    assert (worker.folder / "work" / "a").read_bytes() == b"a"
    assert (worker.home / "data/output_j/t_0.sqlite").read_bytes() == b"table"
    said = json.loads((worker.folder / RESULT).read_text())
    assert said["io_meta"]["outputs"]["data"]["t"][0]["uri"] == f"standalone://{worker.home}/data/output_j/t_0"
    assert not (worker.folder / INCOMING).exists()


def test_a_file_that_was_not_verified_does_not_count(worker: StagedFolder) -> None:
    worker.take(f"{OWN}/work/a", 0, b"a")
    with pytest.raises(Refusal, match="was not sent and verified"):
        worker.finish(ENDED, [StagedFile(f"{OWN}/work/a", 1, sha256(b"a").hexdigest())], "/r", STAGED)


def test_a_worker_that_cannot_be_staged_ends_unless_somebody_has_claimed_it(worker: StagedFolder) -> None:
    worker.claim("a" * 32)
    worker.refuse("because")
    assert Exit.read(worker.folder) is None
    (worker.folder / CLAIMED).unlink()
    worker.refuse("because")
    assert Exit.read(worker.folder) == Exit(None, None, "not_started", "because")


def test_only_places_of_the_other_host_are_changed_in_a_result() -> None:
    said = {"summary": {"uri": "file:///r/x"}, "io_meta": {"outputs": {"data": {
        "f": {"uri": "file:///r/jobs/x", "metadata": {"uri": "file:///r/y"}}, "g": [{"uri": "file:///rr/x"}],
    }}}}  # fmt: skip
    found = back_home(said, Path("/home"), "/r")
    assert found["io_meta"]["outputs"]["data"] == {
        "f": {"uri": "file:///home/jobs/x", "metadata": {"uri": "file:///r/y"}}, "g": [{"uri": "file:///rr/x"}],
    }  # fmt: skip
    assert found["summary"] == said["summary"]
    assert back_home(["x"], Path("/home"), "/r") == ["x"]
