"""How far each export of the record has got: a small file for each, in the folder of the party, beside its record."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fate_flow.core.record.shown import Position, position_document, read_position


class BadState(ValueError):
    """A file is not what an export writes."""


@dataclass(frozen=True)
class ExportState:
    """`position`: what the receiver has taken. `last`: by log, the SHA-256 of the last entry that it has taken, by
    which a log is noticed that goes on from an older state with other entries. `error`: why it does not take more;
    empty if it does."""

    position: Position = field(default_factory=dict)
    last: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


class ExportStates:
    """The files of one party."""

    def __init__(self, home: Path) -> None:
        """`home`: the folder with all that belongs to the party."""
        self._folder = home / "record" / "exports"

    def read(self, name: str) -> ExportState:
        """Return how far an export has got; one without a file is at the beginning. Raise OSError, or BadState."""
        path = self._folder / f"{name}.json"
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return ExportState()
        try:
            found = json.loads(text)
            last = {str(log): str(digest) for log, digest in dict(found["last"]).items()}
            return ExportState(read_position(found["position"]), last, str(found["error"]))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise BadState(f"{path}: is not what an export writes; remove it to send all entries again") from error

    def write(self, name: str, state: ExportState) -> None:
        """Keep a state. Raise OSError; the one before is still there then."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._folder / f"{name}.json"
        draft = path.with_name(f".{path.name}.{os.getpid()}")       # of this process: another one may write, too
        document = {"position": position_document(state.position), "last": dict(state.last), "error": state.error}
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
