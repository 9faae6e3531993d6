"""The preparations before a worker becomes the user's own program.

The worker process makes them between its fork and its `exec`. If something is missing or not allowed then, the launch
fails with this reason. Files are copied, so that the program gets exactly what was checked, and cannot write to the
originals.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from fate_flow.components.base.file_copy import copy_whole
from fate_flow.components.providers.program_order import WORK, Order
from fate_flow.core.model.program import InputFile, secret_variables, volume_variable
from fate_flow.core.model.program_scope import (
    FATE_FLOW_RAY_ADDRESS,
    RAY_ADDRESS,
    RAY_AUTH_MODE,
    RAY_JOB_CONFIG,
    RAY_TOKEN_PATH,
)
from fate_flow.engines.local.program_user import ProgramUser, copy_inputs, hand_over
from fate_flow.engines.local.programs import (
    NotAllowed,
    check_allowed,
    check_content,
    check_granted,
    digest_of,
    find_program,
    read_secret,
    source_of,
)
from fate_flow.engines.local.sandbox import Sandbox, check_without_network, find_bubblewrap
from fate_flow.engines.local.worker import JOBS, RUN, write_atomically

FILES = "files.json"
VOLUMES = "volumes"

_INHERITED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "HOME", "USER", "TMPDIR", "CUDA_VISIBLE_DEVICES")
"""Variables that a program inherits from the server, or from the cluster that runs its worker. Others stay private."""
_FROM_RAY = (
    FATE_FLOW_RAY_ADDRESS, RAY_ADDRESS, RAY_AUTH_MODE, RAY_TOKEN_PATH, "RAY_AUTH_TOKEN", RAY_JOB_CONFIG,
)  # fmt: skip
"""Variables that a program inherits where a job of Ray runs its worker (engines/ray/run.py)."""
_CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")


@dataclass(frozen=True)
class Ready:
    """A program that is ready for `exec`."""

    program: Path
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    user: ProgramUser | None = None      # None: the server's user
    sandbox: Sandbox | None = None       # where it reaches the listener for workers alone; None: none


def prepare(order: Order, folder: Path) -> Ready:
    """Make the working folder and the volumes of the worker.

    Raises NotAllowed if this party no longer allows something; OSError or LookupError if something is missing."""
    user = ProgramUser.of(order.policy.user) if order.policy.user else None
    if user and os.geteuid():            # on a node of a cluster
        raise PermissionError("commands.user: this worker is not root, so it cannot become another user")
    try:
        program = _program(order, folder, _place_files(order, folder))
        secrets = _secrets(order)
    except NotAllowed as refusal:
        # The text is sent to the initiator.
        raise NotAllowed(refusal.orders(order.initiator, order.own)) from refusal
    volumes = {volume_variable(name): str(_volume(order, folder, name)) for name in order.volumes}
    _limit_core_dumps(order.core_dumps)
    names = (*_INHERITED, *(_FROM_RAY if FATE_FLOW_RAY_ADDRESS in os.environ else ()))
    inherited = {name: os.environ[name] for name in names if name in os.environ}
    env = {**inherited, **order.env, **volumes, **secrets}
    if user is None and not order.policy.sandbox:
        return Ready(program, order.argv, env)
    env.pop("TMPDIR", None)              # of the server, which alone can write there
    work = folder / WORK
    copies = hand_over(user, folder, work, folder / VOLUMES) if user else copy_inputs(folder)
    own = user.environment(work) if user else {}
    ready = Ready(program, order.argv, {**env, **own, **order.env, **copies}, user)
    return _in_sandbox(ready, order, folder, tuple(map(Path, volumes.values()))) if order.policy.sandbox else ready


def _in_sandbox(ready: Ready, order: Order, folder: Path, volumes: tuple[Path, ...]) -> Ready:
    """Raises LookupError without bubblewrap; PermissionError for a program that needs more of the network."""
    check_without_network(ready.env)
    bubblewrap = find_bubblewrap(order.policy.sandbox)
    # Several servers of a party have homes of their own beside the one that they share, where the folder is.
    homes = sorted({_home_of(folder), *([Path(order.policy.home)] if order.policy.home else [])})
    return replace(ready, sandbox=Sandbox(bubblewrap, folder, tuple(homes), (folder / WORK, *volumes)))


def _home_of(folder: Path) -> Path:
    """Return the home of a worker folder: the outermost that can be it, since a component may be named as its folders
    are."""
    above = [one.parent for one in folder.parents if one.name == JOBS] or [folder]
    return next((one for one in reversed(above) if (one / RUN).is_dir()), above[0])


def _secrets(order: Order) -> dict[str, str]:
    """Read the secrets in the process that becomes the program, so that only its environment contains them.

    Raises NotAllowed."""
    found = {}
    for name in order.secrets:
        text = read_secret(name, order.policy, order.initiator, order.own)
        found.update(dict.fromkeys(secret_variables(name), text))
    return found


def clear_scratch(folder: Path) -> None:
    """Remove the volumes that were made for the worker."""
    shutil.rmtree(folder / VOLUMES, ignore_errors=True)


def _program(order: Order, folder: Path, digests: Mapping[str, str]) -> Path:
    name = order.argv[0]
    file = next((one for one in order.files if name == f"./{one.name}"), None)
    if file is None:
        program = find_program(name)
        check_allowed(program, name, order.policy.allow)
        check_granted(name, partial(digest_of, os.path.realpath(program)), order.granted)
        return program
    if file.path:
        try:
            check_content(file.name, digests[file.name], order.policy.allow)
        except NotAllowed:
            check_allowed(source_of(file, order.policy.files_root), file.path, order.policy.allow)
    else:
        check_content(file.name, digests[file.name], order.policy.allow)
    check_granted(file.name, lambda: digests[file.name], order.granted)
    (folder / WORK / file.name).chmod(0o500)
    return folder / WORK / file.name


def _place_files(order: Order, folder: Path) -> dict[str, str]:
    """Put the files into the working folder, and return their digests, which are also stored beside the folder."""
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
    """Copy a file; return size and digest. Raises FileNotFoundError with the file's name in the job, because the text
    is sent to the initiator."""
    try:
        return copy_whole(source, target)
    except OSError as error:
        text = f"files: {file.name}: {file.path} below commands.files_root: {error.strerror}"
        raise FileNotFoundError(text) from error


def _volume(order: Order, folder: Path, name: str) -> Path:
    """Return the folder that the party offers with this name, else a new one. Raises NotADirectoryError."""
    offered = order.policy.volumes.get(name)
    if offered is None:
        fresh = folder / VOLUMES / name
        fresh.mkdir(parents=True, exist_ok=True)
        return fresh
    if not Path(offered).is_dir():
        raise NotADirectoryError(f"volumes: {name}: commands.volumes.{name} is no folder at this party")
    return Path(offered)


def _limit_core_dumps(is_wanted: bool) -> None:
    """Allow core dumps of any size in the working folder, or none; say so if the kernel writes them elsewhere."""
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
    """Write to the worker's own stderr, past Python's buffer, which is a copy of the server's."""
    os.write(2, f"core_dumps: {text}\n".encode())
