"""Read FATE's v1 documents, a DSL and a runtime conf, into a `JobSpec` (reference: client-api-v1, section 4).

A document is read once, here, into checked values. Every problem begins with the path of the wrong key. Null counts as
not given. An unknown key is ignored and named in `JobSpec.warnings`, since genuine clients send keys of their own; in a
`strict` reading it is an error. A key of v1 that has no effect here is named in the warnings in both cases.

The spec shares the documents and does not copy them: they must not change afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fate_flow.core.model.document import JobDocument, fate_v1_document
from fate_flow.core.model.grammar import check_party_id, check_role, shown
from fate_flow.core.model.modules import ModuleInfo
from fate_flow.core.model.resources import cores_per_node
from fate_flow.core.model.spec import JobParameters, JobSpec, Party, TaskSpec
from fate_flow.jobspec.fate_v1.after_document import in_order
from fate_flow.jobspec.fate_v1.dsl import Component, component_names, note_provider, read_components
from fate_flow.jobspec.fate_v1.job_parameters import AUTOMATIC, check_places, flat_parameters, job_block, job_parameters
from fate_flow.jobspec.fate_v1.layers import Layers, blocks_for, read_layers
from fate_flow.jobspec.fate_v1.model_name import with_model
from fate_flow.jobspec.fate_v1.policy_document import policies_for
from fate_flow.jobspec.fate_v1.retry_document import rule_for
from fate_flow.jobspec.fate_v1.tasks import Tasks
from fate_flow.jobspec.text.document import Findings, Node, size_of

MAX_PARTIES = 256
MAX_SPREAD = 1_000_000      # values of the conf times parties, since each party gets its own merged copy


def read(
    document: JobDocument, modules: Mapping[str, ModuleInfo], defaults: JobParameters, findings: Findings,
    withheld: frozenset[Party],
) -> JobSpec | None:  # fmt: skip
    """Return the job that the two documents describe; None if there is a problem."""
    dsl, conf = document.body.get("dsl"), document.body.get("runtime_conf")
    return read_documents(dsl, conf, modules, defaults, findings, withheld)


def completed(document: JobDocument, spec: JobSpec, job_id: str) -> JobDocument:
    """Return the documents with the defaults of this server and the name of the job's model."""
    return fate_v1_document(document.body["dsl"], with_model(spec.conf, spec.roles, job_id))


def as_fate_v1(document: JobDocument, _: JobSpec) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return DSL and runtime conf, as they are."""
    return document.body["dsl"], document.body["runtime_conf"]


def conf_of(document: JobDocument) -> Mapping[str, Any]:
    """Return the runtime conf of a document in FATE v1."""
    conf: Mapping[str, Any] = document.body["runtime_conf"]
    return conf


def bound(document: JobDocument) -> list[Any]:
    """Return the value whose digest a job is bound to."""
    return [document.body["dsl"], document.body["runtime_conf"]]


def title(_: JobDocument, beside: tuple[str, str]) -> tuple[str, str]:
    """Return the name and the description that were sent beside the documents, which have no place for them."""
    return beside


def effective_document(spec: JobSpec, party: Party) -> dict[str, Any]:
    """Return `f_runtime_conf_on_party`: the conf with this party's own flat job parameters instead of all parties'."""
    return {**spec.conf, "job_parameters": flat_parameters(spec.parameters[party])}


def component_parameters_on(spec: JobSpec, task: TaskSpec, party: Party) -> dict[str, Any]:
    """Return `f_component_parameters`: the parameters of a component at a party, and the parties of the job."""
    return {
        "module": task.module,
        "ComponentParam": {**task.parameters.get(party, {}), "need_run": party not in task.passed_at},
        "role": _ids_by_role(spec.parties),
        "initiator": _v1_party(spec.initiator),
        "local": _v1_party(party),
    }


# ------------------------------------------------------------------ the job


def read_documents(
    dsl: object, runtime_conf: object, modules: Mapping[str, ModuleInfo], defaults: JobParameters, findings: Findings,
    withheld: frozenset[Party],
) -> JobSpec | None:  # fmt: skip
    """Return the job; None if there is a problem. `withheld`: the seats whose parameters are not all in the conf."""
    conf, components = Node(runtime_conf, "job_runtime_conf", findings), Node(dsl, "dsl", findings)
    size = size_of(conf)
    if size is None or size_of(components) is None:
        return None
    return _Reading(conf, size, components, modules, defaults, findings, withheld).job()


@dataclass(frozen=True)
class _Reading:
    """One reading of two JSON documents."""

    conf: Node
    conf_size: int
    dsl: Node
    modules: Mapping[str, ModuleInfo]
    defaults: JobParameters
    findings: Findings
    withheld: frozenset[Party]

    def job(self) -> JobSpec | None:
        """Return the job; None if there is a problem."""
        if not self.conf.needed() or not self.conf.is_object():
            return None
        self.conf.only(_CONF_KEYS)
        _check_dsl_version(self.conf.at("dsl_version"))
        parties = _read_parties(self.conf.at("role"))
        if self.conf_size * len(parties) > MAX_SPREAD:
            self.conf.wrong(f"has {self.conf_size} values, too many for {len(parties)} parties")
            return None
        initiator = _read_initiator(self.conf.at("initiator"), parties)
        names = component_names(self.dsl.at("components"))
        layers = read_layers(
            self.conf.at("job_parameters"), parties, lambda block: job_block(block, names))
        packages = frozenset(one.provider.package for one in self.modules.values())
        components = read_components(self.dsl, self.modules)
        given = self._component_parameters(parties, names)
        _note_providers(self.conf.at("provider"), parties, packages)
        if initiator not in parties or initiator is None:
            return None
        initiators = {path for path, _ in blocks_for(self.conf.value, parties, initiator)}
        check_places(self.conf.at("job_parameters"), initiators)
        base = self._base(layers, initiator, components)
        parameters = {party: job_parameters(base, layers.at(party)) for party in parties}
        components = in_order(components, parameters[initiator], self.conf.at("job_parameters").at("common"))
        tasks = Tasks(self.conf, self.modules, parties, initiator, parameters, given, self.withheld).all(components)
        if self.findings.problems:
            return None
        return JobSpec(
            initiator=initiator,
            parties=parties,
            tasks=tasks,
            parameters=parameters,
            priority=parameters[initiator].extra.get("priority", 0),
            retry=rule_for(parameters[initiator]),
            policies=policies_for(parameters[initiator]),
            max_failed_workers=parameters[initiator].extra.get("max_failed_workers"),
            ttl_seconds=parameters[initiator].extra.get("ttl"),
            model_id=parameters[initiator].extra.get("model", {}).get("id", ""),
            model_version=parameters[initiator].extra.get("model", {}).get("version", 0),
            warnings=self.findings.short_warnings(),
            dsl=self.dsl.value,
            conf=_completed(self.conf.value, parties, initiator, base, layers),
            stated_conf=self.conf.value,
            paths=self.findings.paths,
            withheld=self.withheld,
        )

    def _component_parameters(
        self, parties: tuple[Party, ...], names: Collection[str]
    ) -> Mapping[Party, Mapping[str, Any]]:
        layers = read_layers(
            self.conf.at("component_parameters"), parties, lambda block: _component_block(block, names))
        return {party: layers.at(party) for party in parties}

    def _base(
        self, layers: Layers, initiator: Party, components: tuple[Component, ...]
    ) -> JobParameters:
        """Return the defaults of values missing in the document: the server's, and those derived from the job."""
        base = self.defaults
        if len(components) == 1:
            own_cores = self.modules[components[0].module].default_task_cores
            base = replace(base, task_cores=own_cores or base.task_cores)
        said = job_parameters(base, layers.at(initiator))
        # as in FATE, a table has as many partitions as a task of the initiator has cores
        return replace(base, computing_partitions=cores_per_node(said.extra) or said.task_cores)


_CONF_KEYS = frozenset({
    "dsl_version", "initiator", "role", "job_parameters", "component_parameters", "provider",
    "conf_path", "dsl_path",      # the client also sends its own paths
})


def _check_dsl_version(node: Node) -> None:
    is_two = node.value == "2" or (type(node.value) is int and node.value == 2)
    if node.needed() and not is_two:
        node.wrong(f"{shown(node.value)} is not 2: only the v2 version runtime conf is supported")


def _read_parties(node: Node) -> tuple[Party, ...]:
    """Return the parties in the order of the document."""
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


def _read_role(node: Node, role: str, ids: Node) -> list[Party]:
    if node._replace(value=role).checked(check_role) is None:
        return []
    found: list[Party] = []
    for one in ids.elements():
        party_id = one.checked(check_party_id)
        if party_id is not None and Party(role, party_id) in found:
            one.wrong(f"{role} {party_id} is there twice")
        elif party_id is not None:
            found.append(Party(role, party_id))
    return found


def _read_initiator(node: Node, parties: tuple[Party, ...]) -> Party | None:
    if not node.needed() or not node.is_object():
        return None
    node.only({"role", "party_id"})
    role = node.at("role").checked(check_role)
    party_id = node.at("party_id").checked(check_party_id)
    if role is None or party_id is None:
        return None
    party = Party(role, party_id)
    if parties and party not in parties:
        node.wrong(f"{party} is not in {node.findings.paths.of(f'job_runtime_conf.role.{role}')}")
    return party


def _completed(
    conf: Mapping[str, Any], parties: tuple[Party, ...], initiator: Party, base: JobParameters, layers: Layers
) -> dict[str, Any]:
    """Return `f_runtime_conf`: the submitted conf, with ids as numbers and this server's defaults in
    `job_parameters.common`.

    The other parties get this conf, so that every server reads the same job, whatever its own defaults."""
    submitted = conf.get("job_parameters") or {}
    common = {key: value for key, value in (submitted.get("common") or {}).items() if value is not None}
    known = {**flat_parameters(base), **common, **layers.common}
    if "retry" in common:           # auto_retries means the same: the next reader would refuse a conf with both
        known = {key: value for key, value in known.items() if key not in AUTOMATIC}
    return {
        **conf,
        "dsl_version": 2,
        "initiator": _v1_party(initiator),
        "role": _ids_by_role(parties),
        "job_parameters": {**submitted, "common": known},
    }


def _v1_party(party: Party) -> dict[str, Any]:
    return {"role": party.role, "party_id": int(party.party_id)}


def _ids_by_role(parties: Iterable[Party]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for party in parties:
        found.setdefault(party.role, []).append(int(party.party_id))
    return found


# ------------------------------------------------------------------ component parameters


def _component_block(node: Node, names: Collection[str]) -> dict[str, Any]:
    """Return the parameters of each component of the job in a block."""
    node.only(names)
    block: dict[str, Any] = {}
    for name, inside in node.members().items():
        if name in names and inside.is_given and inside.is_object():
            block[name] = inside.value
            _check_need_run(inside.at("need_run"))
    return block


def _check_need_run(node: Node) -> None:
    if node.is_given and not isinstance(node.value, bool):
        node.wrong(f"{shown(node.value)} is not true or false")


def _note_providers(node: Node, parties: tuple[Party, ...], packages: Collection[str]) -> None:
    """Report the choices of providers in the conf that have no effect."""
    def read(block: Node) -> Mapping[str, Any]:
        for inside in block.members().values():
            note_provider(inside, packages)
        return {}

    read_layers(node, parties, read)
