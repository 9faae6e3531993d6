"""What a staged worker gets: the digests of many inputs, a limit of their number, and a token that its agent hides."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fate_flow.engines.staged import digests, documents
from fate_flow.engines.staged.digests import Digests
from fate_flow.engines.staged.documents import NotStaged, There, staged
from tests.kit.engines.staged_host import StagedServer
from tests.kit.waiting import eventually

THERE = There("/far", "http://127.0.0.1:1/v1/exchange", "/package")


def files_in(folder: Path, count: int) -> dict[str, Path]:
    found = {f"in/{number}": folder / str(number) for number in range(count)}
    for path in found.values():
        path.write_text(path.name)
    return found


def test_more_inputs_than_digests_are_kept_have_a_list_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "_MOST", 3)
    files, found = files_in(tmp_path, 20), Digests()
    eventually(lambda: found.of(files, 0.0) is not None, "each request is too short to wait for all digests")
    listed = found.of(files, 0.0)
    assert listed is not None
    assert [one.at for one in listed] == list(files)


def test_digests_that_nobody_asks_for_any_more_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "_MOST", 3)
    now = [0.0]
    files, found = files_in(tmp_path, 9), Digests(lambda: now[0])
    assert found.of(files, 60.0) is not None
    assert len(found._known) == 9
    now[0] += 61.0
    assert found.of({"in/8": files["in/8"]}, 60.0) is not None
    assert len(found._known) == 3


def test_too_many_inputs_are_refused_with_their_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_FILES", 2)
    server = StagedServer(tmp_path / "home")
    (server.home / "shared").mkdir()
    inputs = files_in(server.home / "shared", 3)
    named = [{"name": path.name, "path": path.name} for path in inputs.values()]
    server.orders_program("w0", sys.executable, files=named)
    with pytest.raises(NotStaged, match="the inputs have 3 files, and 2 can be sent to a host without the home"):
        staged(server.folder("w0"), server.home, THERE)


_TAKES = """
import ctypes, os, pathlib
from fate_flow.engines.local import proc
proc.hide_memory()
print(proc.take_variable("TOKEN_OF_TEST"), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), "TOKEN_OF_TEST" in os.environ)
"""


def test_a_token_that_was_taken_is_nowhere_for_other_processes() -> None:
    code = f"{_TAKES}print(pathlib.Path('/proc/self/environ').read_bytes())" if _is_root() else _TAKES
    said = subprocess.run(
        [sys.executable, "-P", "-c", code], env={"BEFORE": "a", "TOKEN_OF_TEST": "s3cret", "BEHIND": "b"},
        capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    first, _, environ = said.partition("\n")
    assert first == "s3cret 0 False"
    assert "s3cret" not in environ
    if _is_root():       # nobody else may look
        assert "BEFORE=a" in environ
        assert "BEHIND=b" in environ


def _is_root() -> bool:
    return Path("/proc/self/environ").stat().st_uid == 0
