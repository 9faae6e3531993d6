"""The libraries of others are those that the list names, with their licences; pages get them in joined scripts."""

from __future__ import annotations

import hashlib

from fate_flow.web.static_files import JOINED, STATIC, static_files

FOLDER = STATIC / "lib"


def test_each_library_is_listed_with_its_digest_and_its_licence() -> None:
    rows = [line.split() for line in (FOLDER / "libraries.txt").read_text(encoding="utf-8").splitlines()[3:] if line]
    assert {row[3] for row in rows} == {path.name for path in FOLDER.glob("*.js")}
    for name, _version, licence, file, digest in rows:
        assert hashlib.sha256((FOLDER / file).read_bytes()).hexdigest() == digest, file
        text = FOLDER / f"{name.rpartition('/')[2]}.LICENSE.txt"
        assert licence == "MIT"
        assert "Permission is hereby granted" in text.read_text(encoding="utf-8")


def test_a_joined_script_has_its_files_in_their_order_and_names_their_licences() -> None:
    files = static_files()
    every = {one for names in JOINED.values() for one in names}
    assert every == {one.relative_to(STATIC).as_posix() for one in STATIC.rglob("*.js")}
    for name, parts in JOINED.items():
        text = files[name].content
        ends = [text.index(files[one].content) + len(files[one].content) for one in parts]
        assert ends == sorted(ends), name
        assert files[name].digest == hashlib.sha256(text).hexdigest()
    library = files["pages-with-graph.js"].content.decode()
    assert "// lib/dagre.min.js, licence: lib/dagre.LICENSE.txt\n" in library
    assert "lib/dagre.LICENSE.txt" in files
    assert b"dagre" not in files["pages.js"].content, "who sees no graph gets no library"
