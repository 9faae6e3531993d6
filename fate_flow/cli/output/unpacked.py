"""Store archives and files that a server sends in the user's folders."""

from __future__ import annotations

import re
import shutil
import tarfile
import zlib
from io import BytesIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryFile
from typing import IO, Any

from fate_flow.cli.connection.client import CallFailed, Client
from fate_flow.cli.console.display import refuse
from fate_flow.cli.console.reply import ServerReply
from fate_flow.cli.output.bar import Counted, bar


def fetch_folder(client: Client, method: str, path: str, body: Any, folder: Path) -> ServerReply | None:
    """Download an archive and unpack it into this folder; return None, or the server's answer if it sent no archive.

    Raise CallFailed if the archive is damaged or would write outside the folder."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=folder.parent) as archive:
        with bar(folder.name, None) as advance:
            answer = client.download(method, path, body, Counted(archive, advance))
        if answer is None:
            archive.seek(0)
            _unpack(archive, folder)
    return answer


def fetch_file(client: Client, path: str, body: Any, target: Path) -> None:
    """Download a file as a whole; if the server refuses, print its answer and exit."""
    content = BytesIO()
    answer = client.download("POST", path, body, content)
    if answer is not None:
        refuse(answer)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content.getvalue())


def folder_in(output_path: str, name: str) -> Path:
    """Return the folder of this name in `output_path`; the name cannot lead to another folder."""
    return Path(output_path).absolute() / re.sub(r"[^\w.-]", "_", name)


def downloaded(folder: Path, word: str = "download") -> dict[str, Any]:
    """Return what the genuine client prints after it has downloaded a folder."""
    return {
        "retcode": 0, "directory": str(folder), "retmsg": f"{word} successfully, please check {folder} directory",
    }


def _unpack(archive: IO[bytes], folder: Path) -> None:
    """Unpack files and folders alone, each below this folder. The `filter` of tarfile is not used: it came with Python
    3.11.4, and Debian 12 has 3.11.2."""
    try:
        with tarfile.open(fileobj=archive, mode="r:gz") as tar:
            folder.mkdir(exist_ok=True)
            for member in tar:
                _unpack_one(tar, member, folder)
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise CallFailed(f"the server's archive could not be unpacked into {folder}: {error}") from error


def _unpack_one(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    name = PurePosixPath(member.name)
    target = folder / name
    is_inside = not name.is_absolute() and ".." not in name.parts and target.resolve().is_relative_to(folder.resolve())
    if not is_inside or not (member.isreg() or member.isdir()):
        what = "is neither a file nor a folder" if is_inside else "leads to another folder"
        raise tarfile.ExtractError(f"{member.name[:200]!r} {what}")
    if member.isdir():
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(member)
    assert content is not None                   # it is a file
    with content, target.open("wb") as file:
        shutil.copyfileobj(content, file)
