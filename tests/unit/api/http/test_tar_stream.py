"""Archives that are made while they are sent stay whole, whatever happens to the files meanwhile."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from fate_flow.api.http.archive import Member, files_below, tar_gz, text_member


def read(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        return {one.name: archive.extractfile(one).read() for one in archive}  # type: ignore[union-attr]


@pytest.mark.parametrize(("size", "sent", "kept"), [
    (5, b"12345", b"12345"), (0, b"", b""), (3, b"12345", b"123"), (8, b"12345", b"12345\0\0\0"),
    (512, b"x" * 512, b"x" * 512), (513, b"x" * 600, b"x" * 513), (200_000, b"", bytes(200_000)),
])
def test_a_file_has_the_size_that_was_promised(size: int, sent: bytes, kept: bytes) -> None:
    pieces = [sent[place : place + 2] for place in range(0, len(sent), 2)]
    archive = b"".join(tar_gz([Member("a", size, lambda: pieces), text_member("b", "after")]))
    assert read(archive) == {"a": kept, "b": b"after"}


def test_an_empty_archive_is_one() -> None:
    assert read(b"".join(tar_gz([]))) == {}


def test_long_names_and_other_letters_survive() -> None:
    name = f"{'d' * 90}/{'e' * 90}/ü.log"
    assert read(b"".join(tar_gz([text_member(name, "x")]))) == {name: b"x"}


def test_files_that_change_while_they_are_sent(tmp_path: Path) -> None:
    for name in ("gone", "grown", "shrunk"):
        (tmp_path / name).write_text("12345")
    members = list(files_below(tmp_path))
    (tmp_path / "gone").unlink()
    (tmp_path / "grown").write_text("1234567890")
    (tmp_path / "shrunk").write_text("1")
    assert read(b"".join(tar_gz(members))) == {"gone": bytes(5), "grown": b"12345", "shrunk": b"1\0\0\0\0"}
