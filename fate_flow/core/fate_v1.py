"""FATE's v1 documents, a DSL and a runtime conf, made into a `JobSpec` (reference: client-api-v1, section 4).

What a document says is read once, here, into checked values; every complaint begins with the path of the key that is
wrong. Null counts as not given. A key that v1 does not know is ignored and named in `JobSpec.warnings`, since genuine
clients send their own; under `strict` it is an error. A key that v1 knows and that changes nothing here is named in
the warnings either way.

Who gets which parameters: `common` for everybody; over it what `role.<role>` says under "all"; over that what it
says under indexes, where "0" is stronger than "0|1" and, between equals, the later one is. Objects are merged key by
key, anything else is replaced. FATE goes by the order of the document alone, which is the same as long as the blocks
stand there from general to special; ours does not depend on an order that a JSON library may change.

The documents are shared with the spec, not copied: nobody may change them afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, Protocol, TypeVar, runtime_checkable

from fate_flow.core.dag import topological_order
from fate_flow.core.errors import BadDocument, BadRequest
from fate_flow.core.grammar import (
    check_component_name,
    check_output_name,
    check_party_id,
    check_role,
    shown,
    shown_key,
)
from fate_flow.core.resources import CORES_PER_NODE, cores_per_node
from fate_flow.core.spec import Input, JobParameters, JobSpec, Output, Party, Source, TaskSpec

T = TypeVar("T")

REMOVED_KEYS_WARNING = "[WARN]backend,work_mode is removed,it does not take effect!"
"""What a 1.11 server puts into `retmsg` when the conf holds one of these keys; clients look for it."""

OWN_PROVIDER = "fate_flow"

MAX_COMPONENTS = 1000
MAX_PARTIES = 256
MAX_PARTY_TASKS = 20_000
MAX_SELECTORS = 1000        # blocks below one role
MAX_DEPTH = 64
MAX_VALUES = 100_000
MAX_TEXT = 4_000_000        # characters, keys and texts together
MAX_SPREAD = 1_000_000      # values of the conf times parties, since each party gets its own merged copy
MAX_WHOLE = 2**31 - 1
MAX_WARNINGS = 100


class ModuleInfo(Protocol):
    """What the catalogue knows of a module."""

    @property
    def roles(self) -> frozenset[str]: ...

    @property
    def default_task_cores(self) -> int | None: ...

    def check(self, parameters: Mapping[str, Any], role: str) -> list[str]:
        """What is wrong with the parameters of a party of this role."""


@runtime_checkable
class WarnsOfParameters(Protocol):
    """A module that can also tell which parameters it does not know."""

    def warnings(self, parameters: Mapping[str, Any]) -> list[str]: ...


def parse(
    dsl: object,
    runtime_conf: object,
    *,
    modules: Mapping[str, ModuleInfo],
    defaults: JobParameters,
    strict: bool = False,
) -> JobSpec:
    """The job that the two documents describe. Raises BadDocument for the first thing that is wrong with them."""
    findings = _Findings(strict)
    spec = _read_job(dsl, runtime_conf, modules, defaults, findings)
    if spec is None:
        raise findings.problems[0]
    return spec


def problems(
    dsl: object,
    runtime_conf: object,
    *,
    modules: Mapping[str, ModuleInfo],
    defaults: JobParameters,
    strict: bool = False,
) -> list[str]:
    """All that is wrong with the two documents, as far as one thing does not hide another; empty if `parse` agrees."""
    findings = _Findings(strict)
    _read_job(dsl, runtime_conf, modules, defaults, findings)
    return list(dict.fromkeys(problem.message for problem in findings.problems))


def effective_document(spec: JobSpec, party: Party) -> dict[str, Any]:
    """`f_runtime_conf_on_party`: the conf with this party's own job parameters, flat, in place of all parties'."""
    return {**spec.conf, "job_parameters": flat_parameters(spec.parameters[party])}


def flat_parameters(parameters: JobParameters) -> dict[str, Any]:
    """Job parameters under the keys that FATE has for them."""
    known = {key: getattr(parameters, one.field) for key, one in _JOB_PARAMETERS.items() if one.field}
    return {**known, **parameters.extra}


def component_parameters_on(spec: JobSpec, task: TaskSpec, party: Party) -> dict[str, Any]:
    """`f_component_parameters`: what a component is told at a party, and about whom."""
    return {
        "module": task.module,
        "ComponentParam": {**task.parameters.get(party, {}), "need_run": party not in task.passed_at},
        "role": _ids_by_role(spec.parties),
        "initiator": _v1_party(spec.initiator),
        "local": _v1_party(party),
    }


# ------------------------------------------------------------------ the job


def _read_job(
    dsl: object,
    runtime_conf: object,
    modules: Mapping[str, ModuleInfo],
    defaults: JobParameters,
    findings: _Findings,
) -> JobSpec | None:
    """The job, or None when a problem was found."""
    conf, components = _Node(runtime_conf, "job_runtime_conf", findings), _Node(dsl, "dsl", findings)
    size = _size_of(conf)
    if size is None or _size_of(components) is None:
        return None
    return _Reading(conf, size, components, modules, defaults, findings).job()


@dataclass(frozen=True)
class _Reading:
    """One reading of two documents that are JSON."""

    conf: _Node
    conf_size: int
    dsl: _Node
    modules: Mapping[str, ModuleInfo]
    defaults: JobParameters
    findings: _Findings

    def job(self) -> JobSpec | None:
        """The job, or None when a problem was found."""
        if not self.conf.needed() or not self.conf.is_object():
            return None
        self.conf.only(_CONF_KEYS)
        _check_dsl_version(self.conf.at("dsl_version"))
        parties = _read_parties(self.conf.at("role"))
        if self.conf_size * len(parties) > MAX_SPREAD:
            self.conf.wrong(f"has {self.conf_size} values, too many for {len(parties)} parties")
            return None
        initiator = _read_initiator(self.conf.at("initiator"), parties)
        names = _names(self.dsl.at("components"))
        layers = _read_layers(
            self.conf.at("job_parameters"), parties, lambda block: _job_block(block, names))
        components = _read_components(self.dsl, self.modules)
        told = self._component_parameters(parties, names)
        _note_providers(self.conf.at("provider"), parties)
        if initiator not in parties or initiator is None:
            return None
        base = self._base(layers, initiator, components)
        parameters = {party: _job_parameters(base, layers.at(party)) for party in parties}
        tasks = _Tasks(self.conf, self.modules, parties, initiator, parameters, told).all(components)
        if self.findings.problems:
            return None
        return JobSpec(
            initiator=initiator,
            parties=parties,
            tasks=tasks,
            parameters=parameters,
            warnings=self.findings.short_warnings(),
            conf=_completed(self.conf.value, parties, initiator, base, layers),
        )

    def _component_parameters(
        self, parties: tuple[Party, ...], names: Collection[str]
    ) -> Mapping[Party, Mapping[str, Any]]:
        layers = _read_layers(
            self.conf.at("component_parameters"), parties, lambda block: _component_block(block, names))
        return {party: layers.at(party) for party in parties}

    def _base(
        self, layers: _Layers, initiator: Party, components: tuple[_Component, ...]
    ) -> JobParameters:
        """What holds where the document is silent: the server's defaults, and what follows from the job."""
        base = self.defaults
        if len(components) == 1:
            own_cores = self.modules[components[0].module].default_task_cores
            base = replace(base, task_cores=own_cores or base.task_cores)
        said = _job_parameters(base, layers.at(initiator))
        # as in FATE, a table has as many partitions as a task of the initiator has cores
        return replace(base, computing_partitions=cores_per_node(said.extra) or said.task_cores)


_CONF_KEYS = frozenset({
    "dsl_version", "initiator", "role", "job_parameters", "component_parameters", "provider",
    "conf_path", "dsl_path",      # the client's own paths, which it sends along
})


def _check_dsl_version(node: _Node) -> None:
    is_two = node.value == "2" or (type(node.value) is int and node.value == 2)
    if node.needed() and not is_two:
        node.wrong(f"{shown(node.value)} is not 2: only the v2 version runtime conf is supported")


def _read_parties(node: _Node) -> tuple[Party, ...]:
    """The parties in the order of the document."""
    found: list[Party] = []
    if node.needed():
        for role, ids in node.members().items():
            found += _read_role(node, role, ids)
        if not found:
            node.wrong("names no party")
    if len(found) > MAX_PARTIES:
        node.wrong(f"names {len(found)} parties; {MAX_PARTIES} is the most")
        return ()
    return tuple(found)


def _read_role(node: _Node, role: str, ids: _Node) -> list[Party]:
    if replace(node, value=role).checked(check_role) is None:
        return []
    found: list[Party] = []
    for one in ids.elements():
        party_id = one.checked(check_party_id)
        if party_id is not None and Party(role, party_id) in found:
            one.wrong(f"{role} {party_id} is there twice")
        elif party_id is not None:
            found.append(Party(role, party_id))
    return found


def _read_initiator(node: _Node, parties: tuple[Party, ...]) -> Party | None:
    if not node.needed() or not node.is_object():
        return None
    node.only({"role", "party_id"})
    role = node.at("role").checked(check_role)
    party_id = node.at("party_id").checked(check_party_id)
    if role is None or party_id is None:
        return None
    party = Party(role, party_id)
    if parties and party not in parties:
        node.wrong(f"{party} is not in job_runtime_conf.role.{role}")
    return party


# ------------------------------------------------------------------ parameters in layers


@dataclass(frozen=True)
class _Layers:
    """A block for all parties, and for each party those of its own, general ones first."""

    common: Mapping[str, Any]
    own: Mapping[Party, list[Mapping[str, Any]]]

    def at(self, party: Party) -> dict[str, Any]:
        """All that is said to this party, merged."""
        merged = dict(self.common)
        for block in self.own.get(party, ()):
            _merge_into(merged, block)
        return merged


@dataclass(frozen=True)
class _Override:
    """A block below a role."""

    role: str
    selector: str
    indexes: frozenset[int]      # those that the role has
    block: Mapping[str, Any]

    @property
    def generality(self) -> tuple[bool, int]:
        """Sorts "all" first, then by how many are meant; sorting keeps the order of the document otherwise."""
        return self.selector != "all", -len(self.indexes)


_SELECTOR = re.compile(r"all|(?:0|[1-9][0-9]{0,3})(?:\|(?:0|[1-9][0-9]{0,3}))*")


def _read_layers(
    node: _Node, parties: tuple[Party, ...], read: Callable[[_Node], Mapping[str, Any]]
) -> _Layers:
    """What `read` makes of each block of a `{common, role}` pair, and whom each is for."""
    node.only({"common", "role"})
    common = read(node.at("common"))
    own: dict[Party, list[Mapping[str, Any]]] = {}
    for role, below in node.at("role").members().items():
        seats = [party for party in parties if party.role == role]
        if not seats:
            below.ignored("the job has no such role")
            continue
        for one in sorted(_read_overrides(role, below, len(seats), read), key=lambda one: one.generality):
            for index in one.indexes:
                own.setdefault(seats[index], []).append(one.block)
    return _Layers(common, own)


def _read_overrides(
    role: str, node: _Node, seats: int, read: Callable[[_Node], Mapping[str, Any]]
) -> list[_Override]:
    found: list[_Override] = []
    blocks = node.members()
    if len(blocks) > MAX_SELECTORS:
        node.wrong(f"has {len(blocks)} keys; {MAX_SELECTORS} is the most")
        return found
    for selector, block in blocks.items():
        if _SELECTOR.fullmatch(selector):
            indexes = _indexes(selector, block, seats)
            found.append(_Override(role, selector, indexes, read(block)))
        else:
            block.ignored(f'is not an index of job_runtime_conf.role.{role} ("0", "0|2" or "all")')
    return found


def _indexes(selector: str, block: _Node, seats: int) -> frozenset[int]:
    """The places in the role's list that a selector means."""
    if selector == "all":
        return frozenset(range(seats))
    wanted = frozenset(int(number) for number in selector.split("|"))
    beyond = sorted(index for index in wanted if index >= seats)
    if beyond:
        block.without_effect(f"the role has {seats} of them, none at {', '.join(map(str, beyond))}")
    return wanted - frozenset(beyond)


def _merge_into(general: dict[str, Any], special: Mapping[str, Any]) -> None:
    """Objects are merged key by key, anything else is replaced; what was shared with a document is copied first."""
    for key, value in special.items():
        old = general.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            copied = dict(old)
            _merge_into(copied, value)
            general[key] = copied
        else:
            general[key] = value


# ------------------------------------------------------------------ job parameters


def _job_block(node: _Node, names: Collection[str]) -> dict[str, Any]:
    """What a block of job parameters says, checked, under FATE's own keys."""
    block: dict[str, Any] = {}
    for key, inside in node.members().items():
        if not inside.is_given:
            continue
        if key not in _JOB_PARAMETERS:
            _note_other_parameter(key, inside)
            continue
        value = _JOB_PARAMETERS[key].read(inside)
        if value is not None:
            block[key] = value
    node.at("task_conf").only(names)
    return block


def _note_other_parameter(key: str, node: _Node) -> None:
    if key in _REMOVED:
        node.findings.warn(REMOVED_KEYS_WARNING)
    elif key == "inheritance_info":
        if node.value:
            node.wrong("taking over finished components of another job is not offered")
    elif key in _SET_BY_SERVERS:
        node.without_effect("the servers set it")
    else:
        node.ignored()


def _job_parameters(base: JobParameters, said: Mapping[str, Any]) -> JobParameters:
    fields = {key: one.field for key, one in _JOB_PARAMETERS.items() if one.field}
    known = {fields[key]: value for key, value in said.items() if key in fields}
    extra = {key: value for key, value in said.items() if key not in fields}
    return replace(base, **known, extra={**base.extra, **extra})


def _above_zero(node: _Node) -> int | None:
    return node.whole(1, "a whole number above 0")


def _zero_or_more(node: _Node) -> int | None:
    return node.whole(0, "a whole number of 0 or more")


def _seconds(node: _Node) -> float | None:
    value = node.value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MAX_WHOLE:
        return value
    node.wrong(f"{shown(value)} is not a number of seconds from 0 to {MAX_WHOLE}")
    return None


def _one_of(*choices: str) -> Callable[[_Node], str | None]:
    def read(node: _Node) -> str | None:
        if node.value in choices:
            return str(node.value)
        node.wrong(f"{shown(node.value)} is not one of {', '.join(choices)}")
        return None

    return read


def _job_type(node: _Node) -> str | None:
    if node.value == "train":
        return "train"
    if node.value == "predict":
        node.wrong("'predict' is not offered yet: it needs a store of deployed models; only train jobs run here")
    else:
        node.wrong(f"{shown(node.value)} is not train")
    return None


def _text(node: _Node) -> str | None:
    if isinstance(node.value, str):
        return node.value
    node.wrong(f"{shown(node.value)} is not text")
    return None


def _object(node: _Node) -> Mapping[str, Any] | None:
    return node.value if node.is_object() else None


def _eggroll_run(node: _Node) -> Mapping[str, Any] | None:
    if not node.is_object():
        return None
    cores = node.at(CORES_PER_NODE)
    return {**node.value, CORES_PER_NODE: _zero_or_more(cores)} if cores.is_given else node.value


def _task_conf(node: _Node) -> Mapping[str, Any] | None:
    """Launcher options by component; the timeout is the one that has an effect."""
    found: dict[str, Any] = {}
    for name, conf in node.members().items():
        if not conf.is_given or not conf.is_object():
            continue
        found[name] = dict(conf.value)
        conf.only({"timeout", *_LAUNCHER_OPTIONS})
        if conf.at("timeout").is_given:
            found[name]["timeout"] = _zero_or_more(conf.at("timeout"))
        for key in _LAUNCHER_OPTIONS:
            if conf.at(key).is_given:
                conf.at(key).without_effect("tasks are launched as local processes")
    return found


@dataclass(frozen=True)
class _Key:
    """A key of job_parameters: how it is read, and the field it goes to; no field: it is kept as it is."""

    read: Callable[[_Node], Any]
    field: str = ""


_JOB_PARAMETERS: Mapping[str, _Key] = {
    "job_type": _Key(_job_type, "job_type"),
    "task_cores": _Key(_above_zero, "task_cores"),
    "task_parallelism": _Key(_above_zero, "task_parallelism"),
    "task_memory": _Key(_zero_or_more, "task_memory"),
    "computing_partitions": _Key(_above_zero, "computing_partitions"),
    "federated_status_collect_type": _Key(_one_of("PUSH", "PULL"), "collect_type"),
    "federated_mode": _Key(_one_of("SINGLE", "MULTIPLE"), "federated_mode"),
    "auto_retries": _Key(_zero_or_more, "auto_retries"),
    "auto_retry_delay": _Key(_seconds, "auto_retry_delay_seconds"),
    "timeout": _Key(_above_zero, "timeout_seconds"),
    "task_timeout": _Key(_zero_or_more, "task_timeout_seconds"),
    "task_conf": _Key(_task_conf),
    "eggroll_run": _Key(_eggroll_run),
    "spark_run": _Key(_object),
    "rabbitmq_run": _Key(_object),
    "pulsar_run": _Key(_object),
    "user": _Key(_text),
}

_REMOVED = frozenset({"work_mode", "backend"})
_LAUNCHER_OPTIONS = ("launcher", "world_size")
_SET_BY_SERVERS = frozenset({
    "computing_engine", "storage_engine", "federation_engine", "engines_address", "federation_info",
    "adaptation_parameters", "model_id", "model_version", "roles", "role_parameters", "assistant_role",
    "map_table_name", "map_namespace", "dsl_version", "federated_data_exchange_type",
})


def _completed(
    conf: Mapping[str, Any], parties: tuple[Party, ...], initiator: Party, base: JobParameters, layers: _Layers
) -> dict[str, Any]:
    """`f_runtime_conf`: as submitted, with ids as numbers and this server's defaults in `job_parameters.common`.

    This is what the other parties get, so that every server reads the same job, whatever its own defaults are."""
    submitted = conf.get("job_parameters") or {}
    common = {key: value for key, value in (submitted.get("common") or {}).items() if value is not None}
    return {
        **conf,
        "dsl_version": 2,
        "initiator": _v1_party(initiator),
        "role": _ids_by_role(parties),
        "job_parameters": {**submitted, "common": {**flat_parameters(base), **common, **layers.common}},
    }


def _v1_party(party: Party) -> dict[str, Any]:
    return {"role": party.role, "party_id": int(party.party_id)}


def _ids_by_role(parties: Iterable[Party]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for party in parties:
        found.setdefault(party.role, []).append(int(party.party_id))
    return found


# ------------------------------------------------------------------ component parameters


def _component_block(node: _Node, names: Collection[str]) -> dict[str, Any]:
    """What a block says to each component of the job."""
    node.only(names)
    block: dict[str, Any] = {}
    for name, inside in node.members().items():
        if name in names and inside.is_given and inside.is_object():
            block[name] = inside.value
            _check_need_run(inside.at("need_run"))
    return block


def _check_need_run(node: _Node) -> None:
    if node.is_given and not isinstance(node.value, bool):
        node.wrong(f"{shown(node.value)} is not true or false")


def _note_providers(node: _Node, parties: tuple[Party, ...]) -> None:
    """Says which choices of provider in the conf have no effect."""
    def read(block: _Node) -> Mapping[str, Any]:
        for inside in block.members().values():
            _note_provider(inside)
        return {}

    _read_layers(node, parties, read)


def _note_provider(node: _Node) -> None:
    name = node.value.partition("@")[0] if isinstance(node.value, str) else None
    if node.is_given and name != OWN_PROVIDER:
        node.without_effect(f"{shown(node.value)} is not offered, {OWN_PROVIDER} is used")


# ------------------------------------------------------------------ the DSL


@dataclass(frozen=True)
class _Component:
    """A component as the DSL has it."""

    node: _Node
    name: str
    module: str
    outputs: tuple[Output, ...]
    inputs: tuple[Input, ...] = ()


_Described = Mapping[str, _Component | None]
"""All that the DSL names; None for what is no component."""

_PRODUCED_AS = {"data": "data", "model": "model", "isometric_model": "model", "cache": "cache"}
"""For each kind of input the kind of output that it takes."""
_DATA_KEYS = frozenset({"data", "train_data", "validate_data", "test_data", "eval_data"})
_OUTPUT_KINDS = ("data", "model", "cache")


def _names(node: _Node) -> frozenset[str]:
    """What the document calls its components, well or badly described."""
    return frozenset(node.value) if isinstance(node.value, Mapping) else frozenset()


def _read_components(dsl: _Node, modules: Mapping[str, ModuleInfo]) -> tuple[_Component, ...]:
    """The components that are well described, each after those it takes something from."""
    node = dsl.at("components")
    dsl.only({"components"})
    if not dsl.needed() or not dsl.is_object() or not node.needed():
        return ()
    described = node.members()
    if not 1 <= len(described) <= MAX_COMPONENTS:
        node.wrong(f"has {len(described)} components; 1 to {MAX_COMPONENTS} make a job")
        return ()
    found = {name: _read_component(node, name, inside, modules) for name, inside in described.items()}
    complete = [
        replace(one, inputs=_read_inputs(one.node.at("input"), found))
        for one in found.values()
        if one is not None
    ]
    return _in_order([one for one in complete if one.module], node.findings)


def _read_component(
    parent: _Node, name: str, node: _Node, modules: Mapping[str, ModuleInfo]
) -> _Component | None:
    """The component without its inputs; with no module when that is wrong; None when there is little to go on."""
    if replace(parent, value=name).checked(check_component_name) is None:
        return None
    if name == "pipeline":
        node.wrong("the name stands for the whole job; another one is needed")
        return None
    if not node.needed() or not node.is_object():
        return None
    # need_deploy is for models, CodePath is what a FATE server fills in
    node.only({"module", "input", "output", "provider", "need_deploy", "CodePath"})
    _note_provider(node.at("provider"))
    outputs = _read_outputs(node.at("output"))
    module = _read_module(node.at("module"), modules)
    return _Component(node, name, module, outputs)


def _read_module(node: _Node, modules: Mapping[str, ModuleInfo]) -> str:
    """The name of a module that there is, else nothing."""
    if not node.needed():
        return ""
    if isinstance(node.value, str) and node.value in modules:
        return node.value
    node.wrong(f"{shown(node.value)} is not known here; known: {', '.join(sorted(modules))}")
    return ""


def _read_outputs(node: _Node) -> tuple[Output, ...]:
    node.only(_OUTPUT_KINDS)
    found: list[Output] = []
    for kind in _OUTPUT_KINDS:
        for one in node.at(kind).elements():
            alias = one.checked(check_output_name)
            if alias is not None and Output(kind, alias) in found:
                one.wrong(f"{shown(alias)} is there twice")
            elif alias is not None:
                found.append(Output(kind, alias))
    return tuple(found)


def _read_inputs(node: _Node, components: _Described) -> tuple[Input, ...]:
    node.only(_PRODUCED_AS)
    found = [
        Input("data", key, _read_sources(inside, "data", components))
        for key, inside in node.at("data").members().items()
        if _is_data_key(key, inside)
    ]
    found += [
        Input(kind, kind, _read_sources(node.at(kind), kind, components))
        for kind in _PRODUCED_AS
        if kind != "data"
    ]
    return tuple(one for one in found if one.sources)


def _is_data_key(key: str, node: _Node) -> bool:
    if key not in _DATA_KEYS:
        node.doubtful(f"is not one of {', '.join(sorted(_DATA_KEYS))}", "it is used all the same, as in FATE")
    return replace(node, value=key).checked(check_output_name) is not None


def _read_sources(node: _Node, kind: str, components: _Described) -> tuple[Source, ...]:
    found = [_read_source(one, kind, components) for one in node.elements()]
    return tuple(one for one in found if one is not None)


def _read_source(node: _Node, kind: str, components: _Described) -> Source | None:
    parts = node.value.split(".") if isinstance(node.value, str) else []
    if kind == "model" and len(parts) == 3 and parts[0] == "pipeline":
        node.wrong(f"{shown(node.value)} is a stored model, and there is no store of models yet")
        return None
    if len(parts) != 2:
        node.wrong(f"{shown(node.value)} is not <component>.<output>")
        return None
    source = Source(*parts)
    problem = _problem_with_source(source, _PRODUCED_AS[kind], components)
    if problem:
        node.wrong(f"{shown(node.value)}: {problem}")
        return None
    return source


def _problem_with_source(source: Source, kind: str, components: _Described) -> str:
    if source.producer not in components:
        return f"there is no component {shown(source.producer)}"
    producer = components[source.producer]
    if producer is None:       # what is wrong with it has been said
        return ""
    made = [one.alias for one in producer.outputs if one.kind == kind]
    if source.alias in made:
        return ""
    return f"the {kind} outputs of {source.producer} are: {', '.join(made) or 'none'}"


def _in_order(components: list[_Component], findings: _Findings) -> tuple[_Component, ...]:
    by_name = {one.name: one for one in components}
    upstream = {
        one.name: frozenset(source.producer for put in one.inputs for source in put.sources) & by_name.keys()
        for one in components
    }
    try:
        return tuple(by_name[name] for name in topological_order(upstream))
    except BadDocument as problem:
        findings.problems.append(problem)
        return tuple(components)


# ------------------------------------------------------------------ tasks


_NEEDS_ITS_GUEST_AS_HOST = frozenset({"heterolr", "heterolinr", "heteropoisson"})


@dataclass(frozen=True)
class _Tasks:
    """All that a task is made from, beside its component."""

    conf: _Node
    modules: Mapping[str, ModuleInfo]
    parties: tuple[Party, ...]
    initiator: Party
    parameters: Mapping[Party, JobParameters]
    told: Mapping[Party, Mapping[str, Any]]

    def all(self, components: tuple[_Component, ...]) -> dict[str, TaskSpec]:
        """The tasks in the order of their components."""
        seats = {one.name: self._seats(one) for one in components}
        count = sum(len(parties) for parties in seats.values())
        if count > MAX_PARTY_TASKS:
            self.conf.wrong(f"makes {count} tasks over all parties; {MAX_PARTY_TASKS} is the most")
            return {}
        for one in components:
            self._check_constraint(one)
        return {one.name: self._task(one, seats[one.name]) for one in components}

    def _seats(self, component: _Component) -> tuple[Party, ...]:
        roles = self.modules[component.module].roles
        found = tuple(party for party in self.parties if party.role in roles)
        if not found:
            present = ", ".join(dict.fromkeys(party.role for party in self.parties))
            component.node.at("module").wrong(
                f"{shown(component.module)} runs at {', '.join(sorted(roles))}; the job has only {present}")
        return found

    def _task(self, component: _Component, parties: tuple[Party, ...]) -> TaskSpec:
        told = {party: self.told[party].get(component.name, {}) for party in parties}
        passed = frozenset(party for party in parties if told[party].get("need_run") is False)
        parameters = {party: _own_parameters(told[party]) for party in parties}
        for party in parties:
            if party not in passed:
                self._check_parameters(component, party, parameters[party])
        limit = _task_timeout(self.parameters[self.initiator], component.name)
        limits = {party: _task_timeout(self.parameters[party], component.name) for party in parties}
        return TaskSpec(
            name=component.name,
            module=component.module,
            parties=parties,
            inputs=component.inputs,
            outputs=component.outputs,
            parameters=parameters,
            passed_at=passed,
            timeout_seconds=limit,
            party_timeouts={party: own for party, own in limits.items() if own != limit},
        )

    def _check_parameters(self, component: _Component, party: Party, parameters: Mapping[str, Any]) -> None:
        """Asks the module itself; what it says concerns merged parameters, which have no one place in the document."""
        node = self.conf.at("component_parameters")
        module = self.modules[component.module]
        for problem in module.check(parameters, party.role):
            node.wrong(f"{component.name} at {party}: {problem}")
        for warning in module.warnings(parameters) if isinstance(module, WarnsOfParameters) else ():
            node.doubtful(f"{component.name}: {warning}")      # the same at many parties: said once

    def _check_constraint(self, component: _Component) -> None:
        """These algorithms cannot have their guest as arbiter, unless it is the host as well (a test of one party)."""
        if component.module.lower() not in _NEEDS_ITS_GUEST_AS_HOST:
            return
        guests, hosts, arbiters = (
            {party.party_id for party in self.parties if party.role == role}
            for role in ("guest", "host", "arbiter")
        )
        for party_id in sorted(guests & arbiters - hosts):
            self.conf.at("role").wrong(
                f"{party_id} is guest and arbiter at once; {component.name} ({component.module}) "
                "needs it to be a host as well, or another arbiter")


def _own_parameters(told: Mapping[str, Any]) -> dict[str, Any]:
    """What the component itself is told; `need_run` is for the coordinator."""
    return {key: value for key, value in told.items() if key != "need_run"}


def _task_timeout(parameters: JobParameters, name: str) -> int:
    """What `task_conf` says for this task, else what the job says for each."""
    own = parameters.extra.get("task_conf", {}).get(name, {}).get("timeout")
    return parameters.task_timeout_seconds if own is None else int(own)


# ------------------------------------------------------------------ reading JSON


@dataclass
class _Findings:
    """What a reading has found so far."""

    strict: bool
    problems: list[BadDocument] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)      # in order, each once

    def warn(self, warning: str) -> None:
        self.warnings[warning] = None

    def short_warnings(self) -> tuple[str, ...]:
        """The warnings; of very many the first, and how many more there are."""
        found = tuple(self.warnings)
        more = len(found) - MAX_WARNINGS
        return found if more <= 0 else (*found[:MAX_WARNINGS], f"... and {more} more")


@dataclass(frozen=True)
class _Node:
    """One value of a document, its path, and where to say what is wrong with it."""

    value: Any
    path: str
    findings: _Findings

    @property
    def is_given(self) -> bool:
        return self.value is not None

    def at(self, key: str) -> _Node:
        inside = self.value.get(key) if isinstance(self.value, Mapping) else None
        return _Node(inside, f"{self.path}.{shown_key(key)}", self.findings)

    def members(self) -> dict[str, _Node]:
        """What it holds by key; a problem when it holds something else."""
        if not self.is_given or not self.is_object():
            return {}
        return {key: self.at(key) for key in self.value}

    def elements(self) -> list[_Node]:
        """What it lists; a problem when it is no list."""
        if not self.is_given:
            return []
        if not isinstance(self.value, list):
            self.wrong(f"{shown(self.value)} is not a list")
            return []
        return [_Node(one, f"{self.path}[{place}]", self.findings) for place, one in enumerate(self.value)]

    def is_object(self) -> bool:
        """Whether it is an object; a problem when it is not."""
        if isinstance(self.value, Mapping):
            return True
        self.wrong(f"{shown(self.value)} is not an object")
        return False

    def needed(self) -> bool:
        """Whether it is there; a problem when it is not."""
        if not self.is_given:
            self.wrong("is missing")
        return self.is_given

    def checked(self, check: Callable[[object, str], T]) -> T | None:
        """The value as a check of the grammar returns it; None, and a problem, when it does not pass."""
        if not self.needed():
            return None
        try:
            return check(self.value, self.path)
        except BadRequest as error:
            self.wrong(error.message.removeprefix(f"{self.path}: "))
            return None

    def whole(self, minimum: int, what: str) -> int | None:
        """A whole number, as a number or as its digits; None, and a problem, when it is none."""
        number = _as_whole(self.value)
        if number is None or number < minimum:
            self.wrong(f"{shown(self.value)} is not {what}")
            return None
        if number > MAX_WHOLE:
            self.wrong(f"{shown(self.value)} is more than {MAX_WHOLE}")
            return None
        return number

    def only(self, known: Collection[str]) -> None:
        """Says which of its keys are ignored; a problem when it holds no keys at all."""
        for key, inside in self.members().items():
            if inside.is_given and key not in known:
                inside.ignored()

    def wrong(self, problem: str) -> None:
        self.findings.problems.append(BadDocument(self.path, problem))

    def ignored(self, why: str = "is not known") -> None:
        """Says that nobody reads it."""
        self.doubtful(why, "it is ignored")

    def doubtful(self, what: str, consequence: str = "") -> None:
        """Says what is probably a slip: a problem to the strict, a warning with its consequence to all others."""
        if self.findings.strict:
            self.wrong(what)
        else:
            self.findings.warn(f"{self.path}: {what}" + (f"; {consequence}" if consequence else ""))

    def without_effect(self, why: str) -> None:
        """Says that it is known and changes nothing here."""
        self.findings.warn(f"{self.path}: has no effect: {why}")


_DIGITS = re.compile(r"[0-9]{1,12}")


def _as_whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else None


@dataclass
class _Budget:
    """What is left of the size that a document may have."""

    values: int = MAX_VALUES
    text: int = MAX_TEXT


_Trail = tuple[Any, ...]      # (the trail of the parent, the key): a path that costs nothing until it is shown


def _size_of(document: _Node) -> int | None:
    """How many values a document has; None, and a problem, when it is no JSON that the rest can walk."""
    budget = _Budget()
    pending: list[tuple[Any, _Trail, int]] = [(document.value, (), 0)]
    while pending:
        value, trail, depth = pending.pop()
        problem = _problem_with_value(value, depth, budget)
        if problem:
            replace(document, path=_path_of(document.path, trail)).wrong(problem)
            return None
        if isinstance(value, Mapping):
            pending += [(inside, (trail, f".{shown_key(key)}"), depth + 1) for key, inside in value.items()]
        elif isinstance(value, list):
            pending += [(inside, (trail, f"[{place}]"), depth + 1) for place, inside in enumerate(value)]
    return MAX_VALUES - budget.values


def _problem_with_value(value: object, depth: int, budget: _Budget) -> str:
    if depth > MAX_DEPTH:
        return f"is more than {MAX_DEPTH} levels deep"
    texts = _texts_of(value)
    budget.values -= len(value) if isinstance(value, (Mapping, list)) else 0
    budget.text -= sum(len(text) for text in texts if isinstance(text, str))
    if budget.values < 0 or budget.text < 0:
        return f"is too big: a document has at most {MAX_VALUES} values and {MAX_TEXT} characters"
    for text in texts:
        if not _is_text(text):
            return f"{shown(text)} is not text"
    return "" if _is_json_kind(value) else f"{shown(value)} is not JSON"


def _texts_of(value: object) -> Collection[object]:
    if isinstance(value, Mapping):
        return value.keys()
    return (value,) if isinstance(value, str) else ()


def _is_text(value: object) -> bool:
    """Whether it can be written anywhere: half of a surrogate pair, which JSON can spell, cannot."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def _is_json_kind(value: object) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, int):
        return value.bit_length() <= 1024      # Python itself refuses to write much longer ones
    return value is None or isinstance(value, (str, list, Mapping))


def _path_of(root: str, trail: _Trail) -> str:
    parts: list[str] = []
    while trail:
        trail, part = trail
        parts.append(part)
    return root + "".join(reversed(parts))
