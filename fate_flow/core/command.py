"""A task that runs the user's own program: what its parameters say, checked here, and what a party lets run.

`problems` says what is wrong with the parameters of one party, in words that name the key, the value and what would be
right; `read_command` makes values of parameters that have none. Whether a party runs the program at all is for that
party alone to say (`CommandPolicy`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fate_flow.core.grammar import shown
from fate_flow.core.spec import Party, TaskSpec

MODULE = "Command"
SHELL = "/bin/sh"

MOST_REPLICAS = 256
MOST_INTERRUPTED = 10
"""Workers of one party task that are replaced after an interruption, which uses up nothing else."""

RESERVED = ("FATE_FLOW_", "YT_", "VC_", "VK_")
"""How the names begin that the worker itself is told by."""

_LOADS_CODE = re.compile(
    r"LD_.*|DYLD_.*|GCONV_PATH|PATH|IFS|ENV|BASH_ENV|SHELLOPTS|BASHOPTS|PYTHON(PATH|HOME|STARTUP|INSPECT|USERBASE)"
    r"|PERL5(LIB|OPT|DB)|RUBY(LIB|OPT)|NODE_(PATH|OPTIONS)|(_JAVA|JDK_JAVA|JAVA_TOOL)_OPTIONS|CLASSPATH"
)
"""What makes an allowed program run something that nobody allowed."""

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_MOST_WORDS, _MOST_NAMES, _LONGEST = 1_000, 200, 100_000


@dataclass(frozen=True)
class CommandPolicy:
    """What a party lets the jobs of a federation run on its machine: the section `commands` of its configuration."""

    enabled: bool = False
    allow: tuple[str, ...] = ()          # absolute paths of programs, and sha256:<digest> of what is in one
    share_logs: bool = False             # whether a job's initiator may read what its workers print here


@dataclass(frozen=True)
class CommandSpec:
    """What one party runs of a task."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    replicas: int = 1                    # workers of this party
    size: int = 1                        # of them with a rank; the others are spare
    is_gang: bool = True                 # one bad end of a worker breaks the party task
    max_failed: int = 0                  # failed workers that are replaced, when it is no gang
    restarts_completed: bool = False     # a service: who ended well begins again


def command_at(task: TaskSpec, party: Party) -> CommandSpec | None:
    """What this party runs of the task; None for a task of another kind."""
    return read_command(task.parameters.get(party, {})) if task.module == MODULE else None


def read_command(parameters: Mapping[str, Any]) -> CommandSpec:
    """The values of parameters that have no problems."""
    command = parameters["command"]
    replicas = parameters.get("replicas") or 1
    max_failed, restarts = parameters.get("max_failed_workers") or 0, bool(parameters.get("restart_completed_workers"))
    return CommandSpec(
        argv=(SHELL, "-c", command) if isinstance(command, str) else tuple(command),
        env=dict(parameters.get("env") or {}),
        replicas=replicas,
        size=parameters.get("size") or replicas,
        is_gang=not max_failed and not restarts,
        max_failed=max_failed,
        restarts_completed=restarts,
    )


def problems(parameters: Mapping[str, Any]) -> list[str]:
    """What is wrong with the parameters of a party; empty when `read_command` takes them."""
    found = [f"{key}: {problem}" for key, check in _CHECKS.items() for problem in check(parameters.get(key))]
    return found or list(_exclusions(parameters))


def fails_on_restart(parameters: Mapping[str, Any]) -> bool:
    """Whether the program cannot bear that any worker begins again."""
    return bool(parameters.get("fail_on_worker_restart"))


def _exclusions(parameters: Mapping[str, Any]) -> Iterator[str]:
    """Options that contradict each other."""
    replicas, size = parameters.get("replicas") or 1, parameters.get("size")
    if size is not None and size > replicas:
        yield f"size: {size} ranks are more than the {replicas} workers of replicas"
    given = [key for key in _ONE_OF if parameters.get(key)]
    if len(given) > 1:
        yield f"{given[0]}: excludes {given[1]}; {_ONE_OF[given[0]]}"


_ONE_OF: Mapping[str, str] = {
    "fail_on_worker_restart": "no worker is to begin again",
    "size": "a gang begins again as a whole, also when one of its workers ends well",
    "restart_completed_workers": "a service goes on until it is stopped, so none of its workers counts as the last",
    "max_failed_workers": "",
}
"""Of these one at most; why, of the first that is there."""


def _command(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if not value.strip() or "\0" in value or len(value) > _LONGEST:
            yield f"{shown(value)} is not a line for {SHELL} of at most {_LONGEST} characters"
        return
    if not isinstance(value, list) or not 1 <= len(value) <= _MOST_WORDS:
        yield f"{shown(value)} is neither a line for {SHELL} nor a list of words, the program first"
        return
    wrong = [word for word in value if not isinstance(word, str) or "\0" in word]
    if wrong or sum(map(len, value)) > _LONGEST:
        what = shown(wrong[0]) if wrong else f"more than {_LONGEST} characters"
        yield f"{what} is no word of a command: texts without NUL, {_LONGEST} characters in all"
    elif not _is_program(value[0]):
        yield f"{shown(value[0])} is neither the absolute path of a program nor a name to look for in PATH"


def _is_program(name: str) -> bool:
    if name.startswith("/"):
        return not name.endswith("/")
    return bool(name) and "/" not in name and name not in (".", "..")


def _env(value: object) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, Mapping) or len(value) > _MOST_NAMES:
        yield f"{shown(value)} is not an object of at most {_MOST_NAMES} names and their texts"
        return
    for name, text in value.items():
        if not isinstance(name, str) or not _ENV_NAME.fullmatch(name):
            yield f"{shown(name)} is not a name of letters, digits and _, no digit first"
        elif name.startswith(RESERVED):
            yield f"{name}: names that begin with {', '.join(RESERVED)} are set by the server"
        elif _LOADS_CODE.fullmatch(name):
            yield f"{name}: would make an allowed program load something else; say it in a script that is allowed"
        elif not isinstance(text, str) or "\0" in text or len(text) > _LONGEST:
            yield f"{name}: {shown(text)} is not text of at most {_LONGEST} characters"


def _whole(minimum: int, maximum: int) -> Callable[[object], Iterator[str]]:
    def check(value: object) -> Iterator[str]:
        is_whole = isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum
        if value is not None and not is_whole:
            yield f"{shown(value)} is not a whole number from {minimum} to {maximum}"

    return check


def _flag(value: object) -> Iterator[str]:
    if value is not None and not isinstance(value, bool):
        yield f"{shown(value)} is neither true nor false"


_CHECKS: Mapping[str, Callable[[object], Iterator[str]]] = {
    "command": _command,
    "env": _env,
    "replicas": _whole(1, MOST_REPLICAS),
    "size": _whole(1, MOST_REPLICAS),
    "max_failed_workers": _whole(0, 1_000),
    "fail_on_worker_restart": _flag,
    "restart_completed_workers": _flag,
}

PARAMETERS: Mapping[str, str] = {
    "command": f"a list of words, the program first, or a line for {SHELL}",
    "env": "names and texts",
    "replicas": f"how many workers, from 1 to {MOST_REPLICAS}",
    "size": "how many of them have a rank; the others are spare",
    "max_failed_workers": "how many failed workers are replaced before the share of the party fails",
    "fail_on_worker_restart": "true: whatever ends badly ends the task for good",
    "restart_completed_workers": "true: a worker that ends well begins again",
}
"""What there is to say to a command, and how."""
