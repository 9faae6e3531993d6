"""Translate the native job file into the two documents of FATE v1, which stores and other parties use.

Every value of the file has one place in those documents, so no other module handles a third format. This server and
other parties report problems with paths of those documents: `Paths` translates them into paths of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fate_flow.core.model.grammar import shown, shown_key
from fate_flow.jobspec.native.schema import LIFECYCLE
from fate_flow.jobspec.native.shape import check_shape
from fate_flow.jobspec.text.document import Findings, Node, size_of

MOST_PROBLEMS = 100
THE_FILE = "the job file"
"""The name of the whole file in messages, since it has no path."""


@dataclass
class Paths:
    """Maps paths of the two documents to paths of the file, and those to lines."""

    lines: Mapping[str, int] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)

    def rendered(self, text: str) -> str:
        """Return a message about the documents with the path and the line in the file."""
        named: list[str] = []

        def native(found: re.Match[str]) -> str:
            named.append(f"tasks.{found['task']}.parameters" if found["task"] else self.native(found[0]))
            return named[-1] + (": " if found[0].endswith(" ") else "")

        said = _PATH.sub(native, text)
        return self.at_line(said, named[0]) if named else said

    def at_line(self, text: str, path: str) -> str:
        """Return a message about a path of the file with the line of the path, or of the nearest path above it."""
        line = next((self.lines[one] for one in _upwards(path) if one in self.lines), None)
        return text if line is None else f"{text} (line {line})"

    def native(self, path: str) -> str:
        """Return the path in the file that corresponds to a path of a document."""
        for known in _upwards(path):
            if known in self.known:
                return (self.known[known] + path[len(known):]).removeprefix(".") or THE_FILE
        return path


@dataclass(frozen=True)
class NativeJob:
    """The documents that a job file is translated into."""

    dsl: Mapping[str, Any]
    runtime_conf: Mapping[str, Any]
    name: str
    description: str
    paths: Paths

    def rendered(self, problems: Sequence[str]) -> list[str]:
        """Return the problems of the documents with paths of the file; at most MOST_PROBLEMS."""
        return [*map(self.paths.rendered, problems[:MOST_PROBLEMS]), *_and_more(len(problems))]


def read_native(document: object, lines: Mapping[str, int]) -> tuple[NativeJob | None, list[str]]:
    """Return the job of a file, or all problems of its shape; `lines`: the line of each path in the file.

    The readers of the documents find the problems of its content."""
    findings, paths = Findings(strict=True), Paths(lines)
    node = Node(document, "", findings)
    if size_of(node) is not None:
        check_shape(_with_whole_initiator(node))
    if not findings.problems:
        job = _Translation(node, paths).job()
        if not findings.problems:
            return job, []
    found = [
        paths.at_line(problem.message if problem.path else f"{THE_FILE}: {problem.message}", problem.path)
        for problem in findings.problems[:MOST_PROBLEMS]
    ]
    return None, [*found, *_and_more(len(findings.problems))]


def _with_whole_initiator(file: Node) -> Node:
    """Return the file. If its initiator is only a party id, add a problem with the right value, and use that value."""
    value = file.at("initiator").value
    if isinstance(value, bool) or not isinstance(value, (int, str)) or not _PARTY_ID.fullmatch(str(value)):
        return file
    parties = file.at("parties").value
    seats = [
        f"{role} {value}" for role, ids in (parties.items() if isinstance(parties, Mapping) else ())
        if isinstance(ids, list) and str(value) in map(str, ids)
    ] or [f"guest {value}"]  # fmt: skip
    file.at("initiator").wrong(f"{shown(value)} is a number without a role; write {' or '.join(seats)}")
    return replace(file, value={**file.value, "initiator": seats[0]})


_PARTY_ID = re.compile("[0-9]{1,10}")


def _and_more(count: int) -> list[str]:
    return [f"... and {count - MOST_PROBLEMS} more"] if count > MOST_PROBLEMS else []


# ---------------------------------------------------------------------- paths in messages

_PIECE = r"""\.[A-Za-z0-9_|-]+|\.'[^']*'|\."[^"]*"|\[[0-9]+\]"""
_PATH = re.compile(
    # a module's problems with its parameters have no exact path
    r"\bjob_runtime_conf\.component_parameters: (?P<task>[A-Za-z0-9_-]+)(?= at [a-z]+ [0-9]+: |: )(?: (?=at ))?"
    rf"|\b(?:job_runtime_conf|dsl)(?:(?:{_PIECE})+|(?=: ))"
)


def _upwards(path: str) -> Iterator[str]:
    """Yield the path, the one above it, and so on."""
    while path:
        yield path
        path = _LAST_PIECE.sub("", path)


_LAST_PIECE = re.compile(rf"(?:^[^.\[]+|{_PIECE}|.)\Z", re.DOTALL)


# ---------------------------------------------------------------------- the translation

_RESOURCES = {"cores": "task_cores", "memory": "task_memory", "parallelism": "task_parallelism"}
_CONF, _JOB_PARAMETERS, _COPIED = "job_runtime_conf", "job_parameters", "component_parameters"


class _Translation:
    """Puts each value of a file of the right shape into its place in the documents, and records its path."""

    def __init__(self, file: Node, paths: Paths) -> None:
        self._file = file
        self._paths = paths
        self._documents: dict[str, Any] = {_CONF: {"dsl_version": 2}, "dsl": {}}
        for node, *place in (
            (file, _CONF), (file, _CONF, _JOB_PARAMETERS), (file, _CONF, _JOB_PARAMETERS, "common"),
            (file.at("parties"), _CONF, "role"), (file.at("tasks"), "dsl"), (file.at("tasks"), "dsl", "components"),
            (file.at("tasks"), _CONF, _COPIED),
        ):  # fmt: skip
            self._came(node, *place)

    def job(self) -> NativeJob:
        file, common = self._file, (_CONF, _JOB_PARAMETERS, "common")
        self._seats()
        self._job_parameters(file, common)
        self._put(file.at("timeout"), *common, "timeout")
        for key in ("ttl", "max_failed_workers", *LIFECYCLE):
            self._put(file.at(key), *common, key)
        for at, block in self._at(file):
            self._job_parameters(block, (_CONF, _JOB_PARAMETERS, "role", *at))
        for name, task in file.at("tasks").members().items():
            self._task(name, task)
        found = self._documents
        name, description = (str(file.at(key).value or "") for key in ("name", "description"))
        return NativeJob(found["dsl"], found[_CONF], name, description, self._paths)

    def _seats(self) -> None:
        file = self._file
        for role, ids in file.at("parties").members().items():
            self._put(ids, _CONF, "role", role)
        role, _, party_id = str(file.at("initiator").value).partition(" ")
        self._put(file.at("initiator"), _CONF, "initiator", "role", value=role)
        self._put(file.at("initiator"), _CONF, "initiator", "party_id", value=party_id)
        self._came(file.at("initiator"), _CONF, "initiator")

    def _job_parameters(self, block: Node, place: tuple[str, ...]) -> None:
        for key, known in _RESOURCES.items():
            self._put(block.at("resources").at(key), *place, known)
        self._put(block.at("task_timeout"), *place, "task_timeout")

    def _task(self, name: str, task: Node) -> None:
        component = ("dsl", "components", name)
        self._came(task, *component)
        self._put(task.at("component"), *component, "module")
        self._put(task.at("inputs"), *component, "input")
        self._put(task.at("outputs"), *component, "output")
        limits = (_CONF, _JOB_PARAMETERS, "common", "task_conf", name)
        for key in ("timeout", "after", *LIFECYCLE):
            self._put(task.at(key), *limits, key)
        self._came(task, *limits)
        self._copy(task, _CONF, _COPIED, "common", name)
        for at, block in self._at(task):
            self._put(block.at("timeout"), _CONF, _JOB_PARAMETERS, "role", *at, "task_conf", name, "timeout")
            self._copy(block, _CONF, _COPIED, "role", *at, name)

    def _copy(self, block: Node, *place: str) -> None:
        """Copy the parameters of a component, with FATE's need_run among them."""
        parameters = block.at("parameters")
        if parameters.at("need_run").is_given:
            parameters.at("need_run").wrong("cannot be set here; use run, below at")
        self._put(parameters, *place, value=dict(parameters.value or {}))
        self._put(block.at("run"), *place, "need_run")

    def _at(self, node: Node) -> Iterator[tuple[tuple[str, str], Node]]:
        """Yield the blocks for roles and parties, each with FATE's role and index."""
        for where, block in node.at("at").members().items():
            place = self._place(where, block)
            if place is not None:
                yield place, block

    def _place(self, where: str, block: Node) -> tuple[str, str] | None:
        role, _, party_id = where.partition(" ")
        seats = self._file.at("parties").at(role)
        if not seats.is_given:
            block.wrong(f"the job has no {role} (parties)")
        elif not party_id:
            return role, "all"
        else:
            ids = [str(one) for one in seats.value]
            if party_id in ids:
                return role, str(ids.index(party_id))
            block.wrong(f"is none of parties.{role}: {', '.join(ids)}")
        return None

    def _put(self, node: Node, *place: str, value: Any = None) -> None:
        """Put the value of the node, or the given value, at this place; do nothing if there is none."""
        if not node.is_given and not value:
            return
        inside = self._documents
        for key in place[:-1]:
            inside = inside.setdefault(key, {})
        inside[place[-1]] = node.value if value is None else value
        self._came(node, *place)

    def _came(self, node: Node, *place: str) -> None:
        self._paths.known[".".join((place[0], *map(shown_key, place[1:])))] = node.path
