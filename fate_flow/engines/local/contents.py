"""What a worker has run, read and made, by digests, for the record of its party: its runner reads the files, on the
machine where they are."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fate_flow.components.base.regular_file import open_regular
from fate_flow.components.providers.program_order import Order
from fate_flow.components.tables.table_uri import SCHEME, BadTableUri, parse_uri
from fate_flow.core.model.artifact import FILE_SCHEME, LONGEST_URI, MOST_CONTENTS, Content, Use
from fate_flow.core.text.yaml_text import read_yaml_text
from fate_flow.engines.local.programs import NotAllowed, find_program
from fate_flow.engines.local.worker import RESULT

CONFIG = "config.yaml"
_MOST_BYTES = 8 << 30          # that are read of one worker: the end of a share waits for it
_LONGEST_DOCUMENT = 16 << 20
_PIECE = 1 << 20


class Reader:
    """Reads the files of one worker, up to a limit. What cannot be read has no digest: its place says nothing then."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._left = folder, _MOST_BYTES
        self._found: dict[tuple[Use, str], Content] = {}

    def read_program(self, argv: tuple[str, ...]) -> None:
        """Read the program that the worker becomes."""
        try:
            order = Order.read(self._folder)
            self._read(Use.PROGRAM, FILE_SCHEME + str(find_program((order.argv if order else argv)[0])))
        except (NotAllowed, LookupError, OSError, TypeError, ValueError):
            return                 # the launch says what is wrong

    def at_the_end(self) -> tuple[Content, ...]:
        """Read what the worker has read and made, and return all that was found."""
        for uri in _uris(_document(self._folder / CONFIG).get("input_artifacts")):
            self._read(Use.INPUT, uri)
        said = _document(self._folder / RESULT).get("io_meta")
        for uri in _uris(said.get("outputs") if isinstance(said, dict) else None):
            self._read(Use.OUTPUT, uri)
        return tuple(self._found.values())

    def _read(self, use: Use, uri: str) -> None:
        if (use, uri) in self._found or len(self._found) >= MOST_CONTENTS or len(uri) > LONGEST_URI:
            return
        path = _path_of(uri)
        if path is None:
            return
        try:
            with open_regular(str(path)) as file:
                size = os.fstat(file.fileno()).st_size
                if size > self._left:
                    return
                digest, read = hashlib.sha256(), 0
                while piece := file.read(_PIECE):
                    digest.update(piece)
                    read += len(piece)
                    if read > size:
                        return         # it grows: somebody still writes
        except OSError:
            return
        self._left -= read
        self._found[use, uri] = Content(use, uri, digest.hexdigest(), read)


def _document(path: Path) -> Mapping[str, Any]:
    """Return what a file of the worker folder has; nothing if it is missing, or no mapping."""
    try:
        with open_regular(str(path)) as file:
            text = file.read(_LONGEST_DOCUMENT + 1).decode()
        found = json.loads(text) if path.suffix == ".json" else read_yaml_text(text)
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and len(text) <= _LONGEST_DOCUMENT else {}


def _uris(value: object) -> Iterator[str]:
    """Yield the places in a document of artifacts, but those of models that are packed: their digest is known."""
    if isinstance(value, dict):
        if isinstance(uri := value.get("uri"), str):
            if "stored" not in value:
                yield uri
            return
        value = list(value.values())
    for one in value if isinstance(value, list) else ():
        yield from _uris(one)


def _path_of(uri: str) -> Path | None:
    if uri.startswith(SCHEME):
        try:
            return parse_uri(uri).path
        except BadTableUri:
            return None
    return Path(uri.removeprefix(FILE_SCHEME)) if uri.startswith(f"{FILE_SCHEME}/") else None
