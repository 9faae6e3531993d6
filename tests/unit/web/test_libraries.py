"""The libraries of others are those that the list names, with their licences."""

from __future__ import annotations

import hashlib

from fate_flow.web.pages import STATIC

FOLDER = STATIC / "lib"


def test_each_library_is_listed_with_its_digest_and_its_licence() -> None:
    rows = [line.split() for line in (FOLDER / "libraries.txt").read_text(encoding="utf-8").splitlines()[3:] if line]
    assert {row[3] for row in rows} == {path.name for path in FOLDER.glob("*.js")}
    for name, _version, licence, file, digest in rows:
        assert hashlib.sha256((FOLDER / file).read_bytes()).hexdigest() == digest, file
        text = FOLDER / f"{name.rpartition('/')[2]}.LICENSE.txt"
        assert licence == "MIT"
        assert "Permission is hereby granted" in text.read_text(encoding="utf-8")
