"""Read the native job file.

Every value of the file has one place in FATE v1's documents. The reader puts it there, and the reader of those
documents checks it; `FilePaths` translates the places in messages back into paths of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fate_flow.core.model.artifact import DATA, ArtifactInfos
from fate_flow.core.model.document import JobDocument, Paths
from fate_flow.core.model.grammar import shown, shown_key
from fate_flow.core.model.modules import DescribesArtifacts, ModuleInfo
from fate_flow.core.model.spec import JobParameters, JobSpec, Party
from fate_flow.core.text.phrases import sanitized
from fate_flow.jobspec.fate_v1.job_parameters import flat_parameters
from fate_flow.jobspec.fate_v1.model_name import with_model
from fate_flow.jobspec.fate_v1.reader import read_documents
from fate_flow.jobspec.native.schema import JOB, LIFECYCLE, LONGEST_DESCRIPTION, LONGEST_NAME
from fate_flow.jobspec.text.document import Findings, Node, size_of
from fate_flow.jobspec.text.lines import upwards
from fate_flow.jobspec.text.shape import Shape

_SHAPE = Shape(JOB)
THE_FILE = "the job file"
"""The name of the whole file in messages, since it has no path."""


def read(
    document: JobDocument, modules: Mapping[str, ModuleInfo], defaults: JobParameters, findings: Findings,
    withheld: frozenset[Party],
) -> JobSpec | None:  # fmt: skip
    """Return the job of a file; None if there is a problem."""
    translation = translated(document, modules, findings)
    if translation is None:
        return None
    found = Findings(findings.strict, findings.problems, findings.warnings, translation.paths)
    return read_documents(translation.dsl, translation.runtime_conf, modules, defaults, found, withheld)


def completed(document: JobDocument, spec: JobSpec, job_id: str) -> JobDocument:
    """Return the file with the defaults of this server and the name of the job's model."""
    conf = with_model(spec.conf, spec.roles, job_id)
    given = spec.stated_conf.get("job_parameters", {}).get("common", {})
    missing = {key: value for key, value in conf["job_parameters"]["common"].items() if key not in given}
    return replace(document, defaults={**document.defaults, **missing})


def as_fate_v1(document: JobDocument, spec: JobSpec) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the job as DSL and runtime conf. A value in the job has precedence over one of the document's defaults."""
    parameters = spec.conf["job_parameters"]
    common = {**document.defaults, **parameters["common"]}
    return spec.dsl, {**spec.conf, "job_parameters": {**parameters, "common": common}}


def bound(document: JobDocument) -> list[Any]:
    """Return the value whose digest a job is bound to."""
    return [document.format, document.body, document.defaults]


def title(document: JobDocument, _: tuple[str, str]) -> tuple[str, str]:
    """Return the name and the description in the file; empty if it has none."""
    file = document.body
    return sanitized(file.get("name"), LONGEST_NAME), sanitized(file.get("description"), LONGEST_DESCRIPTION)


def translated(
    document: JobDocument, modules: Mapping[str, ModuleInfo], findings: Findings
) -> Translation | None:  # fmt: skip
    """Return the FATE v1 documents of a file of the right shape; None, with all its problems, for any other value."""
    found = Findings(findings.strict, findings.problems, findings.warnings, _WholeFile())
    file, given = Node(document.body, "", found), Node(document.defaults, "defaults", found)
    if size_of(file) is not None and size_of(given) is not None:
        _SHAPE.check(_with_whole_initiator(file))
        given.nothing_but(_DEFAULTS)
    if found.problems:
        return None
    translation = Translation(file, document.defaults, modules)
    translation.translate()
    return None if found.problems else translation


_DEFAULTS = frozenset({*flat_parameters(JobParameters()), "model_id", "model_version"})


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


# ---------------------------------------------------------------------- paths in messages


class _WholeFile(Paths):
    """The paths of the file itself."""

    def of(self, place: str) -> str:
        return place or THE_FILE


@dataclass
class FilePaths(Paths):
    """The paths in the file of places in FATE v1's documents."""

    known: dict[str, str] = field(default_factory=dict)

    def of(self, place: str) -> str:
        for known in upwards(place):
            if known in self.known:
                return (self.known[known] + place[len(known):]).removeprefix(".") or THE_FILE
        return place

    def of_parameters(self, task: str, party: str = "") -> str:
        return f"tasks.{shown_key(task)}.parameters" + (f": at {party}" if party else "")


# ---------------------------------------------------------------------- the translation

_RESOURCES = {"cores": "task_cores", "memory": "task_memory", "parallelism": "task_parallelism"}
_CONF, _JOB_PARAMETERS, _COPIED = "job_runtime_conf", "job_parameters", "component_parameters"


class Translation:
    """Puts each value of a file of the right shape into its place in the documents, and records its path."""

    def __init__(self, file: Node, defaults: Mapping[str, Any], modules: Mapping[str, ModuleInfo]) -> None:
        self._file = file
        self._modules = modules
        self.paths = FilePaths()
        self._documents: dict[str, Any] = {_CONF: {"dsl_version": 2}, "dsl": {}}
        if defaults:
            self._documents[_CONF][_JOB_PARAMETERS] = {"common": dict(defaults)}
        for node, *place in (
            (file, _CONF), (file, _CONF, _JOB_PARAMETERS), (file, _CONF, _JOB_PARAMETERS, "common"),
            (file.at("parties"), _CONF, "role"), (file.at("tasks"), "dsl"), (file.at("tasks"), "dsl", "components"),
            (file.at("tasks"), _CONF, _COPIED),
        ):  # fmt: skip
            self._came(node, *place)

    @property
    def dsl(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._documents["dsl"]
        return found

    @property
    def runtime_conf(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._documents[_CONF]
        return found

    def translate(self) -> None:
        """Add a problem for each block that is for no party of the job."""
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
            self._came(block.at("resources").at(key), *place, known)        # a message may name it if it is missing
            self._put(block.at("resources").at(key), *place, known)
        self._put(block.at("task_timeout"), *place, "task_timeout")

    def _task(self, name: str, task: Node) -> None:
        component = ("dsl", "components", name)
        self._came(task, *component)
        self._put(task.at("component"), *component, "module")
        self._inputs(task, *component, "input")
        self._put(task.at("outputs"), *component, "output")
        limits = (_CONF, _JOB_PARAMETERS, "common", "task_conf", name)
        for key in ("stage", "timeout", "after", "ports", *LIFECYCLE):
            self._put(task.at(key), *limits, key)
        self._came(task, *limits)
        self._copy(task, _CONF, _COPIED, "common", name)
        for at, block in self._at(task):
            self._put(block.at("timeout"), _CONF, _JOB_PARAMETERS, "role", *at, "task_conf", name, "timeout")
            self._copy(block, _CONF, _COPIED, "role", *at, name)

    def _inputs(self, task: Node, *place: str) -> None:
        """Put the inputs of a task below their sections. The file has them there too, or by the component's keys."""
        inputs, module = task.at("inputs"), self._modules.get(str(task.at("component").value))
        infos: ArtifactInfos = module.inputs if isinstance(module, DescribesArtifacts) else {}
        self._came(inputs, *place)
        self._put(inputs, *place, value={})
        flat = {key: one for key, one in inputs.members().items() if not _is_section(key, one)}
        for section in {one.section for one in infos.values()} if flat or not inputs.is_given else ():
            self._came(inputs, *place, section)                     # a message may name one that is missing
        for section in inputs.value or {}:
            if section not in flat:
                self._section(inputs.at(section), *place, section)
        is_described = isinstance(module, DescribesArtifacts) and not module.takes_other_keys
        for key, one in flat.items():
            if is_described and key not in infos:
                known = f"; it has: {', '.join(infos) or 'none'}"
                one.wrong(f"{task.at('component').value} has no such input{one.nearest(key, infos) or known}")
                continue
            section = infos[key].section if key in infos else DATA
            beside = inputs.at(section)
            if section in inputs.value and section not in flat and key in (beside.value or ()):
                one.wrong(f"is given twice, also below {section}")
            elif isinstance(beside.value, list) and section not in flat:
                one.wrong(f"is given beside {section}, which is a list without keys; use one form of both")
            else:
                self._sources(one, *place, section, key)

    def _section(self, node: Node, *place: str) -> None:
        if not isinstance(node.value, Mapping):
            self._sources(node, *place)
            return
        self._put(node, *place, value={})
        for key, one in node.members().items():
            self._sources(one, *place, key)

    def _sources(self, node: Node, *place: str) -> None:
        """Put a list of sources, or a list of the only one."""
        if isinstance(node.value, str):
            self._put(node, *place, value=[node.value])
            self.paths.known[f"{self._path(place)}[0]"] = node.path
        else:
            self._put(node, *place)

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
        self.paths.known[self._path(place)] = node.path

    @staticmethod
    def _path(place: Sequence[str]) -> str:
        return ".".join((place[0], *map(shown_key, place[1:])))


def _is_section(key: str, node: Node) -> bool:
    """Return whether a key of `inputs` is one of FATE's sections, and not the component's own key of an input."""
    return key in _SECTIONS or (key == DATA and isinstance(node.value, Mapping))


_SECTIONS = frozenset({"model", "isometric_model", "cache"})
