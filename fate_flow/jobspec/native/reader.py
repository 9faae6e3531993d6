"""Read the native job file.

Every value of the file has one place in FATE v1's documents. The reader puts it there, and the reader of those
documents checks it; `FilePaths` translates the places in messages back into paths of the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from fate_flow.core.model.artifact import DATA, ArtifactInfos
from fate_flow.core.model.document import JobDocument, Paths
from fate_flow.core.model.grammar import shown, shown_key
from fate_flow.core.model.modules import DescribesArtifacts, ModuleInfo
from fate_flow.core.model.spec import OWN_RESOURCES, JobParameters, JobSpec, Party
from fate_flow.core.text.phrases import sanitized
from fate_flow.jobspec.fate_v1.job_parameters import flat_parameters
from fate_flow.jobspec.fate_v1.model_name import with_model
from fate_flow.jobspec.fate_v1.placing import CONF, COPIED, JOB_PARAMETERS, PathsElsewhere, Placing, path_of
from fate_flow.jobspec.fate_v1.reader import read_documents
from fate_flow.jobspec.fate_v1.seats_document import INPUT_PARTIES, PARTIES
from fate_flow.jobspec.fate_v1.stored_inputs import KEY as STORED_INPUTS
from fate_flow.jobspec.fate_v1.stored_inputs import OUTPUT, TABLE
from fate_flow.jobspec.native.schema import JOB, LIFECYCLE, LONGEST_DESCRIPTION, LONGEST_NAME
from fate_flow.jobspec.native.sources import FROM, read_by_some
from fate_flow.jobspec.text.document import Findings, Node, size_of
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
    return file._replace(value={**file.value, "initiator": seats[0]})


_PARTY_ID = re.compile("[0-9]{1,10}")


# ---------------------------------------------------------------------- paths in messages


class _WholeFile(Paths):
    """The paths of the file itself."""

    def of(self, place: str) -> str:
        return place or THE_FILE


class FilePaths(PathsElsewhere):
    """The paths in the file of places in FATE v1's documents."""

    def of_parameters(self, task: str, party: str = "") -> str:
        return f"tasks.{shown_key(task)}.parameters" + (f": at {party}" if party else "")


# ---------------------------------------------------------------------- the translation

_RESOURCES = {
    "cores": "task_cores", "memory": "task_memory", "gpus": "task_gpus", "queue": "queue", "labels": "labels",
    "longest_pending": "longest_pending",
    "parallelism": "task_parallelism", "partitions": "computing_partitions",
}  # fmt: skip
_CONF, _JOB_PARAMETERS, _COPIED = CONF, JOB_PARAMETERS, COPIED
_LIMITS = _CONF, _JOB_PARAMETERS, "common", "task_conf"


class Translation(Placing):
    """Puts each value of a file of the right shape into its place in the documents, and records its path."""

    def __init__(self, file: Node, defaults: Mapping[str, Any], modules: Mapping[str, ModuleInfo]) -> None:
        super().__init__(FilePaths(THE_FILE))
        self._file = file
        self._modules = modules
        if defaults:
            self._documents[_CONF][_JOB_PARAMETERS] = {"common": dict(defaults)}
        for node, *place in (
            (file, _CONF), (file, _CONF, _JOB_PARAMETERS), (file, _CONF, _JOB_PARAMETERS, "common"),
            (file.at("parties"), _CONF, "role"), (file.at("tasks"), "dsl"), (file.at("tasks"), "dsl", "components"),
            (file.at("tasks"), _CONF, _COPIED),
        ):  # fmt: skip
            self.came(node, *place)

    def translate(self) -> None:
        """Add a problem for each block that is for no party of the job."""
        file, common = self._file, (_CONF, _JOB_PARAMETERS, "common")
        self._seats()
        self._job_parameters(file, common)
        self.put(file.at("timeout"), *common, "timeout")
        for key in ("ttl", "max_failed_workers", "model", *LIFECYCLE):
            self.put(file.at(key), *common, key)
        for at, block in self._at(file):
            self._job_parameters(block, (_CONF, _JOB_PARAMETERS, "role", *at))
        for name, task in file.at("tasks").members().items():
            self._task(name, task)
        self._stage(file)

    def _seats(self) -> None:
        file = self._file
        for role, ids in file.at("parties").members().items():
            self.put(ids, _CONF, "role", role)
        role, _, party_id = str(file.at("initiator").value).partition(" ")
        self.put(file.at("initiator"), _CONF, "initiator", "role", value=role)
        self.put(file.at("initiator"), _CONF, "initiator", "party_id", value=party_id)
        self.came(file.at("initiator"), _CONF, "initiator")

    def _job_parameters(self, block: Node, place: tuple[str, ...]) -> None:
        for key, known in _RESOURCES.items():
            self.came(block.at("resources").at(key), *place, known)        # a message may name it if it is missing
            self.put(block.at("resources").at(key), *place, known)
        self.put(block.at("task_timeout"), *place, "task_timeout")

    def _task(self, name: str, task: Node) -> None:
        component = ("dsl", "components", name)
        self.came(task, *component)
        self.put(task.at("component"), *component, "module")
        self._copy(task, _CONF, _COPIED, "common", name)
        self._inputs(name, task, *component, "input")
        self.put(task.at("outputs"), *component, "output")
        limits = (*_LIMITS, name)
        for key in ("stage", "timeout", "after", PARTIES, "ports", *LIFECYCLE):
            self.put(task.at(key), *limits, key)
        self._resources(task, *limits)
        self.came(task, *limits)
        for at, block in self._at(task):
            there = (_CONF, _JOB_PARAMETERS, "role", *at, "task_conf", name)
            self.put(block.at("timeout"), *there, "timeout")
            self._resources(block, *there)
            self._copy(block, _CONF, _COPIED, "role", *at, name)
            for key, one in block.at("inputs").members().items():
                self.put(one, _CONF, _COPIED, "role", *at, name, STORED_INPUTS, key)

    def _resources(self, block: Node, *place: str) -> None:
        """Put what a task states of its resources, for all its parties or for one block of them."""
        for key in OWN_RESOURCES:
            self.put(block.at("resources").at(key), *place, key)

    def _stage(self, file: Node) -> None:
        """Give the stage of the job to each task that names none and whose component has it."""
        stage, tasks = file.at("stage"), file.at("tasks").members()
        if not stage.is_given:
            return
        unnamed = [name for name, task in tasks.items() if not task.at("stage").is_given]
        taking = [name for name in unnamed if stage.value in self._stages_of(tasks[name])]
        if not taking and all(task.at("stage").value != stage.value for task in tasks.values()):
            stage.wrong(f"no component of this job has a stage {stage.value}")
        for name in taking:
            self.put(stage, *_LIMITS, name, "stage")

    def _stages_of(self, task: Node) -> frozenset[str]:
        module = self._modules.get(str(task.at("component").value))
        return module.stages if isinstance(module, DescribesArtifacts) else frozenset()

    def _inputs(self, name: str, task: Node, *place: str) -> None:
        """Put the inputs of a task below their sections. The file has them there too, or by the component's keys.

        Those that no task of the job makes are beside the parameters."""
        inputs, module = task.at("inputs"), self._modules.get(str(task.at("component").value))
        infos: ArtifactInfos = module.inputs if isinstance(module, DescribesArtifacts) else {}
        self.came(inputs, *place)
        self.put(inputs, *place, value={})
        flat = {key: one for key, one in inputs.members().items() if not _is_section(key, one)}
        for section in {one.section for one in infos.values()} if flat or not inputs.is_given else ():
            self.came(inputs, *place, section)                     # a message may name one that is missing
        for section in inputs.value or {}:
            if section not in flat:
                self._section(name, inputs.at(section), *place, section)
        is_described = isinstance(module, DescribesArtifacts) and not module.takes_other_keys
        for key, one in flat.items():
            if is_described and key not in infos:
                known = f"; it has: {', '.join(infos) or 'none'}"
                one.wrong(f"{task.at('component').value} has no such input{one.nearest(key, infos) or known}")
                continue
            section = infos[key].section if key in infos else DATA
            if self._is_stored(one, name, key, section):
                continue
            beside = inputs.at(section)
            if section in inputs.value and section not in flat and key in (beside.value or ()):
                one.wrong(f"is given twice, also below {section}")
            elif isinstance(beside.value, list) and section not in flat:
                one.wrong(f"is given beside {section}, which is a list without keys; use one form of both")
            else:
                self._sources(one, *place, section, key)

    def _is_stored(self, node: Node, name: str, key: str, section: str) -> bool:
        """Return whether the input is data that is there already; put it where it belongs then."""
        several = node.value if isinstance(node.value, list) else [node.value]
        stored = [isinstance(one, Mapping) and not one.keys().isdisjoint((TABLE, OUTPUT)) for one in several]
        if not any(stored):
            return False
        beside = [one.at(PARTIES) for one in _several(node) if isinstance(one.value, Mapping)]
        if given := next((one for one in beside if one.is_given), None):
            given.wrong("is for outputs of tasks and stored models; below at, a party has data of its own")
        elif not all(stored):
            node.wrong("has outputs of tasks and what is there already; use one form of both")
        elif section != DATA:
            node.wrong("is a model; tables and outputs of other jobs are data")
        else:
            self.put(node, _CONF, _COPIED, "common", name, STORED_INPUTS, key)
        return True

    def _section(self, name: str, node: Node, *place: str) -> None:
        if not isinstance(node.value, Mapping):
            self._sources(node, *place)
            return
        self.put(node, *place, value={})
        for key, one in node.members().items():
            if not self._is_stored(one, name, key, place[-1]):
                self._sources(one, *place, key)

    def _sources(self, node: Node, *place: str) -> None:
        """Put a list of sources, or a list of the only one: text, or an object for a stored model."""
        several = _several(node)
        by_some = read_by_some(several)
        if by_some is not None:
            values, readers = by_some
            places = (*_LIMITS, place[2], INPUT_PARTIES, ".".join(place[-2:]))
            self.put(node, *place, value=values)
            self.put(node, *places, value=readers)
            for number, one in enumerate(several):
                source = one.at(FROM) if one.at(FROM).is_given else one
                self.paths.known[f"{path_of(place)}[{number}]"] = source.path
                self.paths.known[f"{path_of(places)}[{number}]"] = one.at(PARTIES).path
        elif isinstance(node.value, str | Mapping):
            self.put(node, *place, value=[node.value])
            self.paths.known[f"{path_of(place)}[0]"] = node.path
        else:
            self.put(node, *place)

    def _copy(self, block: Node, *place: str) -> None:
        """Copy the parameters of a component, with FATE's need_run among them."""
        parameters = block.at("parameters")
        for key, instead in (("need_run", "run, below at"), (STORED_INPUTS, "inputs")):
            if parameters.at(key).is_given:
                parameters.at(key).wrong(f"cannot be set here; use {instead}")
        self.put(parameters, *place, value=dict(parameters.value or {}))
        self.put(block.at("run"), *place, "need_run")

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


def _several(node: Node) -> list[Node]:
    return node.elements() if isinstance(node.value, list) else [node]


def _is_section(key: str, node: Node) -> bool:
    """Return whether a key of `inputs` is one of FATE's sections, and not the component's own key of an input."""
    return key in _SECTIONS or (key == DATA and isinstance(node.value, Mapping))


_SECTIONS = frozenset({"model", "isometric_model", "cache"})
