"""Fetching what a worker needs: each file in pieces, resumed where it broke off, and verified by its digest."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fate_flow.engines.local.worker import LAUNCH, read_json
from fate_flow.engines.staged.documents import ALIVE
from fate_flow.engines.staged.places import PIECE, StagedFile, checked_place, digest_of
from fate_flow.engines.staged.server import Server

log = logging.getLogger(__name__)

_PART = ".part"
_TRIES = 3


class Damaged(Exception):
    """A file has arrived with other bytes than the server has, again and again."""


@dataclass(frozen=True)
class Fetched:
    """What was fetched. The places are relative to the root."""

    folder: str                          # of the worker
    documents: frozenset[str]
    files: Mapping[str, StagedFile]
    grows: tuple[str, ...]
    lease_seconds: float


def fetch(server: Server) -> Fetched:
    """Fetch all that the worker needs, and return it. What is here already, and right, is not fetched again.

    Raises Over, Refused, TimeoutError, Damaged; OSError if this host cannot store it."""
    said = server.ask("manifest", server.there).json()
    files = {one.at: one for one in map(StagedFile.read, said["files"])}
    folder = server.root / checked_place(said["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    _check_space(server.root, files)
    for document in said["documents"]:
        _write(server.root / checked_place(document["at"]), document["text"])
    for one in files.values():
        _fetch(server, one)
    grows = tuple(map(checked_place, said["grows"]))
    for at in (*grows, ALIVE):
        (server.root / at).parent.mkdir(parents=True, exist_ok=True)
    Path(str((read_json(folder / LAUNCH) or {}).get("cwd", folder))).mkdir(exist_ok=True)
    documents = frozenset(one["at"] for one in said["documents"])
    return Fetched(said["folder"], documents, files, grows, float(said["lease_seconds"]))


def _check_space(root: Path, files: Mapping[str, StagedFile]) -> None:
    missing = sum(one.size for one in files.values() if not (root / one.at).exists())
    free = shutil.disk_usage(root).free
    if missing > free:
        raise OSError(f"the inputs of the worker take {missing} bytes, and {root} has {free} bytes free")


def _fetch(server: Server, file: StagedFile) -> None:
    target = server.root / file.at
    if target.exists() and _is_right(target, file):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}{_PART}")
    for _ in range(_TRIES):
        _download(server, file, part)
        if _is_right(part, file):
            part.chmod(file.mode)
            part.rename(target)
            return
        log.warning("%s has arrived with other bytes than the server has: it is fetched again", file.at)
        part.unlink()
    raise Damaged(f"{file.at} has arrived {_TRIES} times with other bytes than the server has")


def _download(server: Server, file: StagedFile, part: Path) -> None:
    with part.open("ab") as opened:
        while (offset := opened.tell()) < file.size:
            data = server.ask("file", {**server.there, "at": file.at, "offset": offset}).body
            if not data:
                return                       # it is shorter now than the server had said
            opened.write(data[: file.size - offset])
            if len(data) > PIECE:
                raise Damaged(f"{file.at}: a piece has {len(data)} bytes")


def _is_right(path: Path, file: StagedFile) -> bool:
    return path.stat().st_size == file.size and digest_of(path) == file.sha256


def _write(path: Path, text: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(str(text))
    draft.rename(path)
