"""Only a regular file is opened, and nothing is waited for."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fate_flow.components.base.regular_file import NoRegularFile, open_regular


def test_a_file_is_read_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    (tmp_path / "link").symlink_to("file")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"text"


@pytest.mark.parametrize("name", ["missing", "file/below", "folder", "pipe", "circle", "/dev/null"])
def test_what_is_no_regular_file_is_not_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(NoRegularFile):
        open_regular(tmp_path / name)


def test_a_fault_of_the_machine_is_no_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    (tmp_path / "file").touch()
    monkeypatch.setattr(os, "open", none_left)
    with pytest.raises(OSError, match="Too many open files") as caught:
        open_regular(tmp_path / "file")
    assert not isinstance(caught.value, NoRegularFile)
