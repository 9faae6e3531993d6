"""Copying a file together with its digest."""

from __future__ import annotations

import hashlib
from pathlib import Path

_PIECE = 1024 * 1024


def copy_whole(source: Path, target: Path) -> tuple[int, str]:
    """Copy a file; return the size in bytes and the SHA-256 of the copied content. Raises OSError."""
    found, size = hashlib.sha256(), 0
    with source.open("rb") as read, target.open("wb") as write:
        while piece := read.read(_PIECE):
            found.update(piece)
            size += write.write(piece)
    return size, found.hexdigest()
