"""A model as one file: the same content gives the same bytes, and nothing in such a file is trusted."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import yaml

from fate_flow.components.artifacts.packed_model import (
    MOST_META_BYTES,
    BadModel,
    Packed,
    digest_of,
    pack,
    read_meta,
    read_model,
    unpack,
)
from fate_flow.components.provider_process.models import pack_made, with_unpacked
from fate_flow.core.text.yaml_text import yaml_text
from tests.kit.jobspec.hard_for_yaml import HARD_FOR_YAML

META = {"type_name": "json_model", "metadata": {"a": 1}}


def a_folder(place: Path) -> Path:
    (place / "model" / "deep").mkdir(parents=True)
    (place / "model" / "deep" / "b.bin").write_bytes(os.urandom(3_000_000))
    (place / "model" / "a.txt").write_text("a", encoding="utf-8")
    (place / "model" / "empty").mkdir()
    return place / "model"


def test_a_folder_comes_out_as_it_went_in(tmp_path: Path) -> None:
    content = a_folder(tmp_path)
    packed = pack(content, tmp_path / "packed" / "model.tar", META)
    assert packed == digest_of(tmp_path / "packed" / "model.tar")
    out = unpack(tmp_path / "packed" / "model.tar", tmp_path / "out", packed)
    assert out == tmp_path / "out" / "model"
    found = {str(one.relative_to(out)): one.read_bytes() for one in out.rglob("*") if one.is_file()}
    assert found == {"a.txt": b"a", "deep/b.bin": (content / "deep" / "b.bin").read_bytes()}
    assert (out / "empty").is_dir()
    assert read_meta(tmp_path / "packed" / "model.tar") == META
    assert read_model(tmp_path / "packed" / "model.tar", 10**9) is None      # it is a folder


def test_a_reader_of_yaml_gets_what_is_known_of_a_model_as_it_was_said(tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("{}", encoding="utf-8")
    pack(tmp_path / "weights", tmp_path / "w.tar", {"metadata": HARD_FOR_YAML})
    with tarfile.open(tmp_path / "w.tar") as tar:
        text = cast("io.BufferedReader", tar.extractfile("weights.meta.yaml")).read().decode()
    for found in (yaml.safe_load(text), read_meta(tmp_path / "w.tar")):
        assert found == {"metadata": HARD_FOR_YAML}
        assert isinstance(found["metadata"]["rate"], float)


def test_the_same_content_gives_the_same_bytes(tmp_path: Path) -> None:
    content = a_folder(tmp_path)
    first = pack(content, tmp_path / "1.tar", META)
    os.utime(content / "a.txt", (1, 1))
    (content / "a.txt").chmod(0o644)
    assert pack(content, tmp_path / "2.tar", META) == first
    (content / "a.txt").write_text("b", encoding="utf-8")
    assert pack(content, tmp_path / "2.tar", META) != first


def test_a_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    (tmp_path / "weights").write_text('{"w": 1}', encoding="utf-8")
    pack(tmp_path / "weights", tmp_path / "w.tar", META)
    assert read_model(tmp_path / "w.tar", 8) == b'{"w": 1}'
    assert read_model(tmp_path / "w.tar", 7) is None


@pytest.mark.parametrize("make", [
    lambda path: path.symlink_to("/etc/passwd"), lambda path: os.mkfifo(path), lambda path: path.symlink_to("a.txt"),
])  # fmt: skip
def test_what_is_no_file_or_folder_is_not_packed(tmp_path: Path, make: Callable[[Path], None]) -> None:
    content = a_folder(tmp_path)
    make(content / "other")
    with pytest.raises(BadModel, match="model/other is neither a file nor a folder"):
        pack(content, tmp_path / "packed" / "model.tar", META)
    assert list((tmp_path / "packed").iterdir()) == []


@pytest.mark.parametrize(("levels", "is_taken"), [(31, True), (32, False)])
def test_what_is_packed_is_not_deeper_than_a_reader_takes(tmp_path: Path, levels: int, is_taken: bool) -> None:
    content = tmp_path / "model"
    content.joinpath(*["d"] * levels).mkdir(parents=True)
    if is_taken:
        pack(content, tmp_path / "m.tar", META)
        assert read_meta(tmp_path / "m.tar") == META
    else:
        with pytest.raises(BadModel, match="33 folders deep; 32 are the most"):
            pack(content, tmp_path / "m.tar", META)
        assert not (tmp_path / "m.tar").exists()


@pytest.mark.parametrize(("more", "is_taken"), [(0, True), (1, False)])
def test_what_is_known_of_a_model_is_not_longer_than_a_reader_takes(tmp_path: Path, more: int, is_taken: bool) -> None:
    (tmp_path / "m").write_text("x", encoding="utf-8")
    around = len(yaml_text({"metadata": "", "type_name": "t"}, indent=1))
    meta = {"type_name": "t", "metadata": "x" * (MOST_META_BYTES - around + more)}
    if is_taken:
        pack(tmp_path / "m", tmp_path / "m.tar", meta)
        assert read_meta(tmp_path / "m.tar") == meta
    else:
        with pytest.raises(BadModel, match="has 1048577 bytes, most of them in 'metadata'; 1048576 bytes are the most"):
            pack(tmp_path / "m", tmp_path / "m.tar", meta)


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), "\ud800"])
def test_what_is_known_of_a_model_is_json(tmp_path: Path, value: object) -> None:
    (tmp_path / "m").write_text("x", encoding="utf-8")
    with pytest.raises(BadModel, match=r"m\.meta\.yaml cannot be written"):
        pack(tmp_path / "m", tmp_path / "m.tar", {"metadata": value})


def a_tar(path: Path, *members: tuple[str, bytes, bytes]) -> Packed:
    """Members with name, type and content; the target of a link is its content."""
    with tarfile.open(path, "w") as tar:
        for name, kind, content in members:
            head = tarfile.TarInfo(name)
            head.type, head.size = kind, len(content) if kind == tarfile.REGTYPE else 0
            head.linkname = "" if kind in (tarfile.REGTYPE, tarfile.DIRTYPE) else content.decode()
            tar.addfile(head, io.BytesIO(content))
    return digest_of(path)


FILE, FOLDER, LINK, HARD, PIPE = (
    tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE
)  # fmt: skip
META_FILE = ("m.meta.yaml", FILE, b"{}")


@pytest.mark.parametrize(("members", "problem"), [
    ([("m", FILE, b"x"), ("../evil", FILE, b"x"), META_FILE], "'../evil' is not the path of a file below the model"),
    ([("m", FOLDER, b""), ("m/../../evil", FILE, b"x"), META_FILE], "is not the path of a file below the model"),
    ([("/etc/evil", FILE, b"x"), META_FILE], "is not the path of a file below the model"),
    ([("m", LINK, b"/etc"), META_FILE], "'m' is neither a file nor a folder"),
    ([("m", FOLDER, b""), ("m/a", LINK, b"/etc"), ("m/a/b", FILE, b"x"), META_FILE], "neither a file nor a folder"),
    ([("m", FOLDER, b""), ("m/a", HARD, b"m"), META_FILE], "'m/a' is neither a file nor a folder"),
    ([("m", PIPE, b""), META_FILE], "'m' is neither a file nor a folder"),
    ([("m", FILE, b"x"), ("m", FILE, b"y"), META_FILE], "'m' is there twice"),
    ([("m", FILE, b"x"), ("m/a", FILE, b"y"), META_FILE], "'m/a' is in no folder before it"),
    ([("m", FOLDER, b""), ("m/a/b", FILE, b"y"), META_FILE], "'m/a/b' is in no folder before it"),
    ([("m", FILE, b"x"), ("n", FILE, b"y"), META_FILE], "'n' does not belong to m"),
    ([("m", FILE, b"x")], "m.meta.yaml is missing"),
    ([("m", FILE, b"x"), ("m.meta.yaml", FOLDER, b"")], "'m.meta.yaml' is not a file"),
    ([], "the file is empty"),
])  # fmt: skip
def test_a_tar_with_anything_else_is_refused_whole(
    tmp_path: Path, members: list[tuple[str, bytes, bytes]], problem: str
) -> None:
    packed = a_tar(tmp_path / "bad.tar", *members)
    with pytest.raises(BadModel, match=problem.replace(".", r"\.")):
        unpack(tmp_path / "bad.tar", tmp_path / "home" / "out", packed)
    assert [one.name for one in tmp_path.rglob("*") if one.name in ("evil", "out")] == []
    with pytest.raises(BadModel):
        read_meta(tmp_path / "bad.tar")


@pytest.mark.parametrize("content", [b"", b"x" * 512, b"x" * 5_000, b"\x1f\x8b" + b"x" * 600])
def test_what_is_no_tar_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad.tar").write_bytes(content)
    with pytest.raises(BadModel):
        unpack(tmp_path / "bad.tar", tmp_path / "out", digest_of(tmp_path / "bad.tar"))
    assert not (tmp_path / "out").exists()


def test_a_changed_or_cut_file_is_refused(tmp_path: Path) -> None:
    packed = pack(a_folder(tmp_path), tmp_path / "model.tar", META)
    whole = (tmp_path / "model.tar").read_bytes()
    for other in (whole[:-2_000_000], whole + b"x", b"y" + whole[1:]):
        (tmp_path / "model.tar").write_bytes(other)
        with pytest.raises(BadModel, match="was expected"):
            unpack(tmp_path / "model.tar", tmp_path / "out", packed)
        assert not (tmp_path / "out").exists()
    cut = tmp_path / "model.tar"
    cut.write_bytes(whole[:2_000_000])
    with pytest.raises(BadModel, match="is not a tar"):
        unpack(cut, tmp_path / "out", digest_of(cut))
    assert not (tmp_path / "out").exists()


def test_a_worker_packs_what_it_makes_and_unpacks_what_it_reads(tmp_path: Path) -> None:
    made = tmp_path / "models" / "output_model"
    made.parent.mkdir()
    made.write_text("w", encoding="utf-8")
    entry = {"uri": f"file://{made}", "type_name": "json_model", "metadata": {"a": 1}}
    task = {"component": "fit", "task_id": "1_fit", "party_task_id": "1_fit_0"}
    pack_made({"io_meta": {"outputs": {"model": {"output_model": [entry]}}}}, task, tmp_path)
    tar = tmp_path / "packed" / "output_model.tar"
    said = json.loads((tmp_path / "packed" / "output_model.json").read_text(encoding="utf-8"))
    assert said == digest_of(tar).as_json()
    assert read_meta(tar)["source"] == {"task_id": "1_fit", "party_task_id": "1_fit_0", "output_key": "output_model"}

    stored = {**entry, "uri": f"file://{tar}", "stored": said}
    inputs = with_unpacked({"input_model": stored, "several": [stored, stored], "data": {"uri": "x"}}, tmp_path)
    unpacked = tmp_path / "inputs" / "input_model_0" / "output_model"
    assert inputs["input_model"] == {**entry, "uri": f"file://{unpacked}"}
    assert unpacked.read_text(encoding="utf-8") == "w"
    assert [Path(one["uri"]).parent.name for one in inputs["several"]] == ["several_0", "several_1"]
    assert inputs["data"] == {"uri": "x"}
