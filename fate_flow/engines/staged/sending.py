"""Sending back what a worker prints and makes."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

from fate_flow.components.providers.program_order import WORK
from fate_flow.engines.local.program_preparation import FILES, VOLUMES
from fate_flow.engines.local.worker import read_json
from fate_flow.engines.staged.documents import STATE
from fate_flow.engines.staged.fetch import Fetched
from fate_flow.engines.staged.pinned import Answer
from fate_flow.engines.staged.places import MOST_FILES, PIECE, StagedFile, file_at
from fate_flow.engines.staged.server import Refused, Server

log = logging.getLogger(__name__)

_TRIES = 3
_DAMAGED = 422


@dataclass
class Growing:
    """The output and the logs of a worker: what is new is sent, piece by piece."""

    server: Server
    fetched: Fetched
    _sent: dict[str, int] = field(default_factory=dict)

    def send(self, *, is_last: bool = False) -> None:
        """Send what is new; without `is_last`, a piece of each file, and not at all while the server is away."""
        for at in self.fetched.grows:
            while self._send(at, is_last) and is_last:
                pass

    def _send(self, at: str, is_last: bool) -> bool:
        """Return whether there may be more."""
        path, sent = self.server.root / at, self._sent.get(at, 0)
        try:
            with path.open("rb") as file:
                file.seek(sent)
                data = file.read(PIECE)
        except FileNotFoundError:
            return False
        if not data:
            return False
        query = {"at": at, "offset": sent, **self.server.there}
        answer = self.server.ask("grow", data, query) if is_last else self._once(data, query)
        if answer is not None:
            self._sent[at] = int(answer.json()["size"])
        return answer is not None

    def _once(self, data: bytes, query: dict[str, str | int]) -> Answer | None:
        try:
            return self.server.once("grow", data, query)
        except (Refused, OSError, HTTPException) as error:
            log.warning("%s is not sent now: %s", query["at"], error)
            return None


def send_outputs(server: Server, fetched: Fetched) -> list[StagedFile]:
    """Send every file that the worker has made, and return them. Raises Over, Refused, also for more than MOST_FILES;
    TimeoutError; OSError."""
    places = sorted(_made(server.root, fetched))
    if len(places) > MOST_FILES:
        raise Refused(413, f"it has {len(places)} files, and at most {MOST_FILES} can be sent to the server")
    found = [file_at(server.root / at, at) for at in places]
    for file in found:
        _send(server, file)
    return found


def _send(server: Server, file: StagedFile) -> None:
    for left in reversed(range(_TRIES)):
        _upload(server, file)
        try:
            server.ask("verify", {"file": file.as_json()})
        except Refused as error:
            if error.status != _DAMAGED or not left:
                raise
            log.warning("%s", error)
        else:
            return


def _upload(server: Server, file: StagedFile) -> None:
    with (server.root / file.at).open("rb") as opened:
        offset = 0
        while offset < file.size:
            opened.seek(offset)
            data = opened.read(PIECE)
            if not data:
                return                       # it is shorter now, and will not be verified
            offset = int(server.ask("put", data, {"at": file.at, "offset": offset}).json()["size"])


def _made(root: Path, fetched: Fetched) -> Iterator[str]:
    """Yield the places of the files that the worker has made: no links, nothing that was fetched, no scratch."""
    own = fetched.folder
    placed = {f"{own}/{WORK}/{name}" for name in read_json(root / own / FILES) or {}}
    left_out = {*fetched.documents, *fetched.files, *fetched.grows, *placed}
    skipped = {*(f"{own}/{name}" for name in (*STATE, VOLUMES)), "run", "secrets", "files"}
    for folder, names, files in os.walk(root):
        at = Path(folder).relative_to(root).as_posix()
        names[:] = [one for one in names if _joined(at, one) not in skipped and not (Path(folder) / one).is_symlink()]
        for name in files:
            place, path = _joined(at, name), Path(folder) / name
            is_made = place not in left_out and place not in skipped and not name.startswith(".")
            if is_made and path.is_file() and not path.is_symlink() and place.startswith(_MADE):
                yield place


_MADE = ("jobs/", "data/")               # where a worker makes something that counts


def _joined(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder}/{name}"
