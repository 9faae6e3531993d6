"""What the runner of a worker says of the files that the worker has run, read and made."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import pytest

from fate_flow.components.base.regular_file import open_regular
from fate_flow.components.providers.program_order import ORDER, PEERS, Order
from fate_flow.components.tables.table_uri import TableAddress
from fate_flow.core.model.artifact import MOST_CONTENTS, Content, Use
from fate_flow.core.model.program import ProgramRules
from fate_flow.core.text.yaml_text import yaml_text
from fate_flow.engines.local import contents
from fate_flow.engines.local.contents import Reader
from fate_flow.engines.local.worker import Exit
from tests.kit.servers.engine_site import Site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    (tmp_path / "jobs").mkdir()
    site = Site(tmp_path)
    site.start_spawner()
    yield site
    site.close()


def content(use: Use, path: Path, uri: str = "") -> Content:
    data = path.read_bytes()
    return Content(use, uri or f"file://{path}", sha256(data).hexdigest(), len(data))


def a_file(path: Path, text: str) -> dict[str, object]:
    """A file, as documents name it."""
    path.write_text(text)
    return {"uri": f"file://{path}", "type_name": "file", "metadata": {}}


def a_table(home: Path, name: str) -> tuple[Path, dict[str, object]]:
    table = TableAddress(home, "n", name)
    table.path.parent.mkdir(exist_ok=True)
    table.path.write_text(f"rows of {name}")
    return table.path, {"uri": table.uri, "type_name": "table", "metadata": {}}


def test_the_end_has_the_digests_of_program_inputs_and_outputs(site: Site, tmp_path: Path) -> None:
    """The program replaces itself and its input; an input is read when the worker has ended."""
    program, made = tmp_path / "program", tmp_path / "made.txt"
    path, table = a_table(tmp_path, "t")
    spec = site.spec(str(program), reads_contents=True)
    spec.folder.mkdir(parents=True)
    outputs = {"data": {"out": [{"uri": f"file://{made}", "type_name": "file", "metadata": {}}]}}
    result = json.dumps({"status": {"code": 0}, "io_meta": {"outputs": outputs}})
    program.write_text(
        f"#!/bin/sh\necho made > '{made}'\necho '{result}' > '{spec.folder}/result.json'\necho >> \"$0\"\n"
    )
    program.chmod(0o700)
    begun = content(Use.PROGRAM, program)
    stored = {"uri": f"file://{tmp_path}/m", "stored": {"sha256": "ab" * 32, "bytes": 3}}
    inputs = {"data": table, "both": [a_file(tmp_path / "in.txt", "in"), table], "model": stored}
    (spec.folder / "config.yaml").write_text(yaml_text({"input_artifacts": inputs}))
    rules = ProgramRules(enabled=True, allow=(str(program),))
    (spec.folder / ORDER).write_text(Order((str(program),), {}, rules).to_json())
    (spec.folder / PEERS).write_text("[]")

    end = site.end_of(site.launch(spec))
    assert end.contents == (
        begun, content(Use.INPUT, path, str(table["uri"])), content(Use.INPUT, tmp_path / "in.txt"),
        content(Use.OUTPUT, made),
    )  # fmt: skip
    assert content(Use.PROGRAM, program) != begun
    assert Exit.of(json.loads(end.to_json())) == end


def test_nothing_is_read_without_a_record(site: Site) -> None:
    assert site.end_of(site.shell("exit 0")).contents == ()


def read_by(folder: Path, *uris: str) -> list[str]:
    (folder / "config.yaml").write_text(yaml_text({"input_artifacts": [{"uri": one} for one in uris]}))
    return [one.uri for one in Reader(folder).at_the_end()]


def test_what_is_no_file_is_left_out_and_holds_up_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("x")
    names = ("pipe", "none", "", "file")
    found = read_by(
        tmp_path, *(f"file://{tmp_path / name}" for name in names), "http://a/b", "standalone://x", "file://relative",
        "file:///" + "x" * 2_000, "file:///dev/zero", "file:///a\0b", "file:///proc/kallsyms",
    )  # fmt: skip
    assert found == [f"file://{tmp_path}/file"]


def test_a_name_that_is_no_text_is_left_out_and_refused(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff")).write_text("x")
    (tmp_path / "config.yaml").write_text(json.dumps({"input_artifacts": [{"uri": f"file://{tmp_path}/\udcff"}]}))
    assert Reader(tmp_path).at_the_end() == ()
    with pytest.raises(ValueError, match="surrogates"):
        Content.of(["input", "file:///\udcff", "ab" * 32, 1])


def test_a_file_that_is_named_again_and_again_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def failing(path: Path) -> BinaryIO:
        tried.append(path.name)
        if "broken" in path.name:
            raise OSError(5, "broken")
        return open_regular(path)

    monkeypatch.setattr(contents, "open_regular", failing)
    assert read_by(tmp_path, *["file:///broken"] * 50, *(f"file:///broken{number}" for number in range(500))) == []
    assert len([one for one in tried if "broken" in one]) == MOST_CONTENTS


def test_a_large_program_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "_LARGEST_PROGRAM", 3)
    (tmp_path / "program").write_text("1234")
    reader = Reader(tmp_path)
    reader.read_program((str(tmp_path / "program"),))
    assert reader.at_the_end() == ()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"input_artifacts": 7}', '{"input_artifacts": [[{"uri": 3}]]}'])
def test_a_document_that_is_none_names_nothing(tmp_path: Path, text: str) -> None:
    for name in ("config.yaml", "result.json"):
        (tmp_path / name).write_text(text)
    assert Reader(tmp_path).at_the_end() == ()


def test_no_more_is_read_than_some_files_and_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(MOST_CONTENTS + 5):
        (tmp_path / f"f{number}").write_text("12345")
    uris = [f"file://{tmp_path}/f{number}" for number in range(MOST_CONTENTS + 5)]
    assert read_by(tmp_path, *uris) == uris[:MOST_CONTENTS]
    monkeypatch.setattr(contents, "_MOST_BYTES", 12)
    assert read_by(tmp_path, *uris) == uris[:2]


@pytest.mark.parametrize("value", [[1], [["input", "x"]], [["other", "x", "y", 1]], [["input", "x", 7, 1]], "x", 7])
def test_contents_that_are_none_are_refused(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        Exit.of({"exit_code": 0, "signal": None, "cause": "exited", "contents": value})
