"""How far each export has got: a small file for each, in the folder of the party, beside its record."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fate_flow.core.record.shown import Position, position_document, read_position


@dataclass(frozen=True)
class ExportState:
    """`position`: what the receiver has taken. `waiting`: how many entries it had not taken when this was written.
    `error`: why it does not take them; empty if it does."""

    position: Position = field(default_factory=dict)
    waiting: int = 0
    error: str = ""


class ExportStates:
    """The files of one party."""

    def __init__(self, home: Path) -> None:
        """`home`: the folder with all that belongs to the party."""
        self._folder = home / "record" / "exports"

    def read(self, name: str) -> ExportState:
        """Return how far an export has got; one without a file is at the beginning. Raise OSError, or ValueError for
        a file that somebody else has written."""
        path = self._folder / f"{name}.json"
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ExportState()
        try:
            found = json.loads(text)
            return ExportState(read_position(found["position"]), int(found["waiting"]), str(found["error"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}: is not what an export writes; remove it to send all entries again") from error

    def all(self, names: Iterable[str]) -> dict[str, ExportState]:
        """Return the states of the exports with these names whose files can be read."""
        found: dict[str, ExportState] = {}
        for name in names:
            try:
                found[name] = self.read(name)
            except (OSError, ValueError):
                continue
        return found

    def write(self, name: str, state: ExportState) -> None:
        """Keep a state. Raise OSError; the one before is still there then."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._folder / f"{name}.json"
        draft = path.with_name(f".{path.name}.draft")
        text = json.dumps(
            {"position": position_document(state.position), "waiting": state.waiting, "error": state.error}
        )
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
