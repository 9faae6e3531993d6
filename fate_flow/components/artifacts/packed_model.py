"""A model as one file: a tar with its content, a file or a folder NAME, and NAME.meta.yaml with what is known of it.

The worker that has made a model packs it, so that its server stores it without reading it. The same content gives the
same bytes. Whoever reads such a file trusts nothing in it: only files and folders below NAME, as many bytes as the file
has. Only the standard library is used: the Python of any provider runs this, too.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import stat
import struct
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from fate_flow.core.text.yaml_text import read_yaml_text, yaml_text

PACKED = "packed"            # the folder, in that of a worker, with the packed models
TAR = ".tar"
META = ".meta.yaml"
MOST_MEMBERS = 10_000
MOST_META_BYTES = 1024 * 1024
_DEEPEST = 32
_PIECE = 1024 * 1024


class BadModel(ValueError):
    """A packed model that is not what it should be."""


@dataclass(frozen=True)
class Packed:
    """The digest and the size of a packed model."""

    sha256: str
    size: int

    def as_json(self) -> dict[str, Any]:
        return {"sha256": self.sha256, "bytes": self.size}


def pack(content: Path, target: Path, meta: Mapping[str, Any]) -> Packed:
    """Write a model into a file beside which nothing of it is left if that fails. Raises OSError; BadModel for what no
    reader takes."""
    text = _meta_text(f"{content.name}{META}", meta)
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    target.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        with open(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600), "w+b") as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for path, name in _members(content):
                    _add(tar, path, name)
                tar.addfile(_head(f"{content.name}{META}", len(text)), io.BytesIO(text))
            file.flush()
            os.fsync(file.fileno())
            file.seek(0)
            packed = _digest(file)
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return packed


def _meta_text(name: str, meta: Mapping[str, Any]) -> bytes:
    """Return the content of the member with this name. Raises BadModel if a reader would refuse it."""
    try:
        text = yaml_text(meta, indent=1, sort_keys=True).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise BadModel(f"{name} cannot be written: {error}") from error
    if len(text) > MOST_META_BYTES:
        key = max(meta, key=lambda one: len(yaml_text(meta[one])))
        raise BadModel(f"{name} has {len(text)} bytes, most of them in {key!r}; {MOST_META_BYTES} bytes are the most")
    return text


def _members(content: Path) -> Iterator[tuple[Path, str]]:
    """Yield all that belongs to the content, each folder before what is in it, in the order of the names."""
    mode, count = content.lstat().st_mode, 0
    pending = [(content, content.name, mode)]
    while pending:
        path, name, mode = pending.pop()
        count += 1
        if count > MOST_MEMBERS:
            raise BadModel(f"it has more than {MOST_MEMBERS} files and folders")
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise BadModel(f"{name} is neither a file nor a folder")
        if (levels := len(PurePosixPath(name).parts)) > _DEEPEST:
            raise BadModel(f"{name[:200]!r} is {levels} folders deep; {_DEEPEST} are the most")
        yield path, name
        if stat.S_ISDIR(mode):
            inside = sorted(path.iterdir(), reverse=True)
            pending += [(one, f"{name}/{one.name}", one.lstat().st_mode) for one in inside]


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    if path.is_dir():
        head = _head(name, 0)
        head.type, head.mode = tarfile.DIRTYPE, 0o700
        tar.addfile(head)
        return
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        tar.addfile(_head(name, os.fstat(file.fileno()).st_size), file)


def _head(name: str, size: int) -> tarfile.TarInfo:
    """Return the head of a member without what differs from run to run: times, owners, modes."""
    head = tarfile.TarInfo(name)
    head.size, head.mode = size, 0o600
    return head


def _digest(file: BinaryIO) -> Packed:
    found, size = hashlib.sha256(), 0
    while piece := file.read(_PIECE):
        found.update(piece)
        size += len(piece)
    return Packed(found.hexdigest(), size)


def digest_of(path: Path) -> Packed:
    """Return digest and size of a packed model. Raises OSError."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        return _digest(file)


def unpack(path: Path, folder: Path, expected: Packed) -> Path:
    """Unpack a model into a folder of its own, and return the path of its content there.

    Raises OSError; BadModel if the file has another digest, or is not a packed model: then nothing of it stays."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            found = _digest(file)
            if found != expected:
                raise BadModel(f"the file has the digest {found.sha256}, {expected.sha256} was expected")
            file.seek(0)
            name = _extract(file, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder / name


def _extract(file: BinaryIO, folder: Path) -> str:
    """Write the content of a packed model, and return its name."""
    with _reading(file) as tar:
        for member in checked_members(tar):
            target = folder / member.name
            if member.isdir():
                target.mkdir(mode=0o700)
                continue
            source = tar.extractfile(member)
            assert source is not None, "it is a file"
            with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
                shutil.copyfileobj(source, written, _PIECE)
        return _name_of(tar)


def read_model(path: Path, most_bytes: int) -> bytes | None:
    """Return the content of a packed model that is one file; None if it is a folder or larger. Raises OSError and
    BadModel."""
    with opened(path) as tar:
        checked_members(tar)
        member = tar.getmember(_name_of(tar))
        source = tar.extractfile(member) if member.isreg() and member.size <= most_bytes else None
        return source.read() if source is not None else None


def read_meta(path: Path) -> Mapping[str, Any]:
    """Return what is known of a packed model, after a check of the whole file. Raises OSError and BadModel."""
    with opened(path) as tar:
        checked_members(tar)
        member = tar.getmember(f"{_name_of(tar)}{META}")
        source = tar.extractfile(member) if member.size <= MOST_META_BYTES else None
        try:
            found = read_yaml_text(source.read().decode()) if source is not None else None
        except (ValueError, RecursionError) as error:
            raise BadModel(f"{member.name} is not what a worker writes: {error}") from error
    if not isinstance(found, dict):
        raise BadModel(f"{member.name} is not an object, or larger than {MOST_META_BYTES} bytes")
    return found


@contextmanager
def opened(path: Path) -> Iterator[tarfile.TarFile]:
    """Open a packed model. Raises OSError; BadModel, also for what is wrong while it is read."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file, _reading(file) as tar:
        yield tar


@contextmanager
def _reading(file: BinaryIO) -> Iterator[tarfile.TarFile]:
    """Open a tar without compression, so that its content is not larger than the file. Raises BadModel, also for what
    is wrong while it is read."""
    try:
        with tarfile.open(fileobj=file, mode="r:") as tar:
            yield tar
    except BadModel:
        raise
    except (tarfile.TarError, ValueError, OverflowError, EOFError, LookupError, struct.error) as error:
        raise BadModel(f"the file is not a tar: {error}") from error


def checked_members(tar: tarfile.TarFile) -> list[tarfile.TarInfo]:
    """Return all members. Raises BadModel if one is no file or folder of the model, or is there twice."""
    members = []
    for one in tar:
        members.append(one)
        if len(members) > MOST_MEMBERS + 1:
            raise BadModel(f"the file has more than {MOST_MEMBERS} members")
    if not members:
        raise BadModel("the file is empty")
    content = members[0].name.split("/")[0]
    seen: dict[str, bool] = {}           # whether it is a folder, by its name
    for member in members:
        if problem := _problem_of(member, content, seen):
            raise BadModel(f"{member.name[:200]!r} {problem}")
        seen[member.name] = member.isdir()
    if f"{content}{META}" not in seen:
        raise BadModel(f"{content}{META} is missing")
    return members


def _problem_of(member: tarfile.TarInfo, content: str, seen: Mapping[str, bool]) -> str:
    name = PurePosixPath(member.name)
    if str(name) != member.name or name.is_absolute() or ".." in name.parts or "\0" in member.name:
        return "is not the path of a file below the model"
    if len(name.parts) > _DEEPEST:
        return f"is more than {_DEEPEST} folders deep"
    if not (member.isreg() or member.isdir()) or member.issparse():
        return "is neither a file nor a folder"
    if member.name in seen:
        return "is there twice"
    if name.parts == (f"{content}{META}",):
        return "" if member.isreg() else "is not a file"
    if name.parts[0] != content:
        return f"does not belong to {content}"
    if len(name.parts) > 1 and not seen.get(str(name.parent)):
        return "is in no folder before it"
    return ""


def _name_of(tar: tarfile.TarFile) -> str:
    """Return the name of the content, of a checked tar."""
    return tar.getmembers()[0].name.split("/")[0]
