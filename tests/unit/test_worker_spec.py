"""What a worker folder says, and what is read out of it again."""

from __future__ import annotations

import json
import os
import socket
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import pytest

from fate_flow.engines.local import worker
from fate_flow.engines.local.engine import LocalEngine, printed_in
from fate_flow.engines.local.spawner import Order, import_once, read_order
from fate_flow.engines.local.worker import (
    CLAIMED,
    EXIT,
    LAUNCH,
    MOST_JSON_BYTES,
    RESULT,
    RUNNER,
    STOP,
    Exit,
    ProcessId,
    Started,
    Stop,
    WorkerSpec,
    claim,
    claimer,
    read_json,
    write_atomically,
)

FOLDER = Path("/home/jobs/1/guest/9999/worker")


def a_spec(**changes) -> WorkerSpec:
    spec = WorkerSpec(
        worker_id="w1", folder=FOLDER, provider="mine", way="exec", argv=("sh", "-c", "true"), cwd=FOLDER,
        stdout=FOLDER / "std.log", stderr=FOLDER / "err.log")
    return replace(spec, **changes)


@pytest.mark.parametrize("spec", [
    a_spec(),
    a_spec(way="fork", argv=("component", "execute", "--config", "/ä b.yaml")),
    a_spec(env={"A": "1", "B": "two words"}, timeout_seconds=1.5, grace_seconds=0),
    a_spec(lease_file=Path("/home/run/lease"), lease_seconds=30),
    a_spec(output_max_bytes=10, output_setting="log.file_max_bytes"),
])
def test_a_spec_survives_its_file(spec):
    assert WorkerSpec.from_json(spec.folder, spec.to_json()) == spec


def test_the_folder_of_a_spec_is_where_its_file_lies():
    assert WorkerSpec.from_json(Path("/moved"), a_spec().to_json()).folder == Path("/moved")


@pytest.mark.parametrize("changes", [
    {"folder": Path("jobs/1")}, {"cwd": Path(".")}, {"stdout": Path("std.log")}, {"stderr": Path("err.log")},
    {"lease_file": Path("lease")}, {"way": "slurm"}, {"argv": ()},
])
def test_a_spec_that_no_runner_could_carry_out_is_refused(changes):
    with pytest.raises(ValueError, match="worker w1"):
        a_spec(**changes)


@pytest.mark.parametrize(("end", "keys"), [
    (Exit(0, None, "exited"), {"exit_code", "signal", "cause"}),
    (Exit(None, 9, "timeout"), {"exit_code", "signal", "cause"}),
    (Exit(None, None, "not_started", "no such file"), {"exit_code", "signal", "cause", "message"}),
])
def test_an_exit_survives_its_file(tmp_path, end, keys):
    write_atomically(tmp_path / EXIT, end.to_json())
    assert Exit.read(tmp_path) == end
    assert read_json(tmp_path / EXIT).keys() == keys


def test_started_has_the_keys_of_the_contract(tmp_path):
    started = Started(runner=ProcessId(10, 100), worker=ProcessId(11, 101), machine="boot.1")
    write_atomically(tmp_path / RUNNER, started.to_json())
    assert Started.read(tmp_path) == started
    assert read_json(tmp_path / RUNNER) == {
        "runner_pid": 10, "runner_started": 100, "pid": 11, "pid_started": 101, "machine": "boot.1",
    }


def test_a_stop_needs_no_more_than_a_grace(tmp_path):
    (tmp_path / STOP).write_text('{"grace_seconds": 5}')
    assert Stop.read(tmp_path) == Stop(5, 0.0)


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"\xff", b'{"status": {"code": 0}, "io'])
def test_half_a_file_is_no_file(tmp_path, content):
    if content is not None:
        (tmp_path / RESULT).write_bytes(content)
    assert read_json(tmp_path / RESULT) is None


def test_what_a_worker_left_instead_of_a_file_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "deep").write_text("[" * 100_000)
    with (tmp_path / "large").open("w") as file:
        file.truncate(MOST_JSON_BYTES + 1)
    (tmp_path / "folder").mkdir()
    (tmp_path / "endless").symlink_to("/dev/zero")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with socket.socket(socket.AF_UNIX) as listener, chdir(tmp_path):      # the path may be too long for an address
        listener.bind("socket")
    for name in ("pipe", "deep", "large", "folder", "endless", "circle", "socket"):
        assert read_json(tmp_path / name) is None, name


@pytest.mark.parametrize("text", [
    "{}", '{"x": 1}', '{"runner_pid": "1", "runner_started": 1, "pid": 1, "pid_started": 1}',
    '{"runner_pid": 1e400, "runner_started": 1, "pid": -1, "pid_started": 1}', '{"pid": true, "started": 1}',
    '{"exit_code": "0", "signal": null, "cause": "exited"}', '{"exit_code": 0, "signal": null, "cause": "bored"}',
    '{"exit_code": 0, "signal": null, "cause": ["exited"]}', '{"grace_seconds": NaN}', '{"grace_seconds": null}',
    '{"stdout": 7, "stderr": null}', '{"stdout": "/tmp/x"}', '{"stdout": "/a", "stderr": "b"}',
    '{"stdout": "/a", "stderr": "/\\u0000"}', "[]", "null", "{",
])  # fmt: skip
def test_a_file_of_the_wrong_kind_is_no_file(tmp_path, text):
    """A program can write into the folder of its worker: whoever looks at the worker goes on."""
    for name in (RUNNER, EXIT, STOP, CLAIMED, LAUNCH):
        (tmp_path / name).write_text(text)
    assert (Started.read(tmp_path), Exit.read(tmp_path), Stop.read(tmp_path)) == (None, None, None)
    assert not claimer(tmp_path).is_alive()
    assert not claimer(tmp_path).send(0)
    assert printed_in(tmp_path) is None
    assert LocalEngine().observe(tmp_path).state == "lost"
    assert LocalEngine().stop(tmp_path, 0) is False


def test_an_atomic_write_replaces_and_leaves_nothing_beside(tmp_path):
    write_atomically(tmp_path / "a", "old")
    write_atomically(tmp_path / "a", "new", mode=0o600)
    assert (tmp_path / "a").read_text() == "new"
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_that_is_claimed_while_it_is_looked_at_has_a_living_claimer(tmp_path, monkeypatch):
    read = worker._claim_in

    def read_just_before_the_claim(folder):
        found = read(folder)
        claim(folder)
        return found

    monkeypatch.setattr(worker, "_claim_in", read_just_before_the_claim)
    assert claimer(tmp_path) == ProcessId.of(os.getpid())


def test_a_folder_is_claimed_once_and_names_its_claimer(tmp_path):
    assert claimer(tmp_path) is None
    assert claim(tmp_path)
    assert not claim(tmp_path)
    assert claimer(tmp_path) == ProcessId.of(os.getpid())
    assert os.listdir(tmp_path) == ["claimed"]


def test_a_process_is_its_number_and_its_start():
    me = ProcessId.of(os.getpid())
    assert me.is_alive()
    assert me.send(0)
    stranger = ProcessId(me.pid, me.started + 1)    # our number as it would look after it was used again
    assert not stranger.is_alive()
    assert not stranger.send(0)


def test_nothing_survives_a_session_whose_number_is_in_use_again():
    me = ProcessId.of(os.getpid())
    assert Started(runner=ProcessId(me.pid, me.started - 1), worker=ProcessId(1, 1)).survivors() == []


@pytest.mark.long
def test_a_module_that_cannot_be_imported_keeps_no_worker_from_starting(caplog):
    import_once(["no.such.module", "csv"])
    assert "cannot import no.such.module" in caplog.text


@pytest.mark.parametrize(("datagram", "order"), [
    (b'{"launch": "/a/b"}', Order(Path("/a/b"))),
    (b'{"launch": "/a/b", "imports": ["csv"]}', Order(Path("/a/b"), ("csv",))),
    (json.dumps({"launch": "/ä"}).encode(), Order(Path("/ä"))),
    (b'{"launch": "/a/b", "imports": "csv"}', None),
    (b'{"launch": "/a/b", "imports": [7]}', None),
    (b'{"launch": "a/b"}', None),
    (b'{"launch": 7}', None),
    (b'{"launch": "/a\\u0000"}', None),
    (b'{"start": "/a/b"}', None),
    (b'["launch"]', None),
    (b'"launch"', None),
    (b"\xff\x00", None),
    (b"", None),
])
def test_an_order_is_an_absolute_folder_or_nothing(datagram, order):
    assert read_order(datagram) == order
