"""A worker that becomes the user's own program: the order in its folder, and what is done before the program begins.

The server writes `command.json`; the worker process reads it between its fork and its `exec`, so that whatever is
missing or not allowed then is a launch that failed, with its reason. Files are copied, so that what the program has is
what was checked, and nobody's original can be written through it.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from fate_flow.components.base.file_copy import copy_whole
from fate_flow.core.model.program import InputFile, ProgramRules, Secret, secret_variables, volume_variable
from fate_flow.engines.local.programs import (
    NotAllowed,
    check_allowed,
    check_content,
    find_program,
    read_secret,
    source_of,
)
from fate_flow.engines.local.worker import write_atomically

ORDER = "command.json"
PEERS = "peers.json"
FILES = "files.json"
WORK = "work"
VOLUMES = "volumes"
OUTPUTS = "outputs"

_INHERITED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "HOME", "USER", "TMPDIR")
"""Of the server's environment; what else stands there is none of a stranger's business."""
_CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")


@dataclass(frozen=True)
class Order:
    """What the worker is to become, and what this party allows."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    policy: ProgramRules
    files: tuple[InputFile, ...] = ()
    volumes: tuple[str, ...] = ()
    core_dumps: bool = False
    secrets: tuple[str, ...] = ()        # names; the worker reads them itself
    initiator: str = ""                  # the party whose job it is
    own: str = ""                        # the party that runs it

    def write(self, folder: Path) -> None:
        """Names tokens: for this user only."""
        write_atomically(folder / ORDER, json.dumps(asdict(self)), mode=0o600, is_durable=False)

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """None where the worker is something else. Raises ValueError, KeyError, TypeError for what is none of ours."""
        try:
            value: dict[str, Any] = json.loads((folder / ORDER).read_text())
        except FileNotFoundError:
            return None
        secrets = {
            name: Secret(one["file"], tuple(one["initiators"])) for name, one in value["policy"]["secrets"].items()
        }  # fmt: skip
        policy = {**value["policy"], "allow": tuple(value["policy"]["allow"]), "secrets": secrets}
        return cls(
            tuple(value["argv"]), value["env"], ProgramRules(**policy),
            tuple(InputFile(**one) for one in value["files"]), tuple(value["volumes"]), value["core_dumps"],
            tuple(value["secrets"]), value["initiator"], value["own"],
        )  # fmt: skip


@dataclass(frozen=True)
class Ready:
    """What is left is to become it."""

    program: Path
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)


def prepare(order: Order, folder: Path) -> Ready:
    """Makes the working folder and the volumes of the worker.

    Raises NotAllowed for what this party does not run or give any more, OSError for what is not there."""
    try:
        program = _program(order, folder, _place_files(order, folder))
        secrets = _secrets(order)
    except NotAllowed as refusal:
        # Its words cross to the initiator.
        raise NotAllowed(refusal.orders(order.initiator, order.own)) from refusal
    volumes = {volume_variable(name): str(_volume(order, folder, name)) for name in order.volumes}
    _limit_core_dumps(order.core_dumps)
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return Ready(program, order.argv, {**inherited, **order.env, **volumes, **secrets})


def _secrets(order: Order) -> dict[str, str]:
    """Read by the process that becomes the program: they are in its environment and nowhere else. Raises NotAllowed."""
    found = {}
    for name in order.secrets:
        text = read_secret(name, order.policy, order.initiator, order.own)
        found.update(dict.fromkeys(secret_variables(name), text))
    return found


def is_program(folder: Path) -> bool:
    """Whether the worker of this folder is a program of the user's own."""
    return (folder / ORDER).exists()


def clear_scratch(folder: Path) -> None:
    """The volumes that were made for the worker go with it."""
    shutil.rmtree(folder / VOLUMES, ignore_errors=True)


def _program(order: Order, folder: Path, digests: Mapping[str, str]) -> Path:
    name = order.argv[0]
    file = next((one for one in order.files if name == f"./{one.name}"), None)
    if file is None:
        program = find_program(name)
        check_allowed(program, name, order.policy.allow)
        return program
    if file.path:
        try:
            check_content(file.name, digests[file.name], order.policy.allow)
        except NotAllowed:
            check_allowed(source_of(file, order.policy.files_root), file.path, order.policy.allow)
    else:
        check_content(file.name, digests[file.name], order.policy.allow)
    (folder / WORK / file.name).chmod(0o500)
    return folder / WORK / file.name


def _place_files(order: Order, folder: Path) -> dict[str, str]:
    """What is in each file, which is also kept beside the working folder."""
    found: dict[str, dict[str, Any]] = {}
    for file in order.files:
        target = folder / WORK / file.name
        sent = file.sent
        if sent is not None:
            target.write_bytes(sent)
            size, digest = len(sent), hashlib.sha256(sent).hexdigest()
        else:
            size, digest = _copy(file, source_of(file, order.policy.files_root), target)
        if file.sha256 and file.sha256 != digest:
            raise NotAllowed(f"files: {file.name}: sha256 is not {file.sha256} at this party", f"; it is {digest}")
        target.chmod(0o400)
        found[file.name] = {"bytes": size, "sha256": digest, "path": file.path}
    if found:
        write_atomically(folder / FILES, json.dumps(found), is_durable=False)
    return {name: one["sha256"] for name, one in found.items()}


def _copy(file: InputFile, source: Path, target: Path) -> tuple[int, str]:
    """Raises FileNotFoundError, whose words cross to the initiator: they name the file as the job does."""
    try:
        return copy_whole(source, target)
    except OSError as error:
        text = f"files: {file.name}: {file.path} below commands.files_root: {error.strerror}"
        raise FileNotFoundError(text) from error


def _volume(order: Order, folder: Path, name: str) -> Path:
    """The folder that the party offers under this name, else a fresh one. Raises NotADirectoryError."""
    offered = order.policy.volumes.get(name)
    if offered is None:
        fresh = folder / VOLUMES / name
        fresh.mkdir(parents=True, exist_ok=True)
        return fresh
    if not Path(offered).is_dir():
        raise NotADirectoryError(f"volumes: {name}: commands.volumes.{name} is no folder at this party")
    return Path(offered)


def _limit_core_dumps(is_wanted: bool) -> None:
    """As large as may be, into the working folder, or none; says so where the kernel takes them elsewhere."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard if is_wanted else 0, hard))
    if not is_wanted:
        return
    pattern = _CORE_PATTERN.read_text(encoding="utf-8", errors="replace").strip()
    if pattern.startswith(("|", "/")):
        _say(f"the kernel of this machine takes them elsewhere (core_pattern {pattern})")
    if hard == 0:
        _say("the limits of this party's server allow none (RLIMIT_CORE)")


def _say(text: str) -> None:
    """To the worker's own stderr; what Python holds for it is still the server's."""
    os.write(2, f"core_dumps: {text}\n".encode())
