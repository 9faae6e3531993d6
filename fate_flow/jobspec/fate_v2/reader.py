"""Read the DAG of FATE 2 (reference: client-api-v2, section 3), as a client sends it in `dag_schema`.

Each value gets its place in FATE v1's documents, whose reader checks it (`translation.py`). What this server does not
offer is a problem; keys that FATE's own server drops are warnings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from fate_flow.core.model.document import JobDocument
from fate_flow.core.model.modules import ModuleInfo
from fate_flow.core.model.spec import JobParameters, JobSpec, Party
from fate_flow.jobspec.fate_v1.job_parameters import flat_parameters
from fate_flow.jobspec.fate_v1.placing import PathsElsewhere
from fate_flow.jobspec.fate_v1.reader import read_documents
from fate_flow.jobspec.fate_v2.parties import parties_in
from fate_flow.jobspec.fate_v2.translation import THE_DAG, Translation
from fate_flow.jobspec.text.blocks import Block, Parts, Path, divided, is_switch, object_at, objects_in
from fate_flow.jobspec.text.document import Findings, Node, size_of

FATE_V2 = "fate_v2"
"""The format; its body is the `dag_schema` of a submit."""


def read(
    document: JobDocument, modules: Mapping[str, ModuleInfo], defaults: JobParameters, findings: Findings,
    withheld: frozenset[Party],
) -> JobSpec | None:  # fmt: skip
    """Return the job of a DAG; None if there is a problem."""
    found = Findings(findings.strict, findings.problems, findings.warnings, PathsElsewhere(THE_DAG, {"": ""}))
    file, given = Node(document.body, "", found), Node(document.defaults, "defaults", found)
    if size_of(file) is None or size_of(given) is None:
        return None
    given.nothing_but(_DEFAULTS)
    translation = Translation(file, document.defaults, modules)
    translation.translate()
    if found.problems:
        return None
    found = replace(found, paths=translation.paths)
    spec = read_documents(translation.dsl, translation.runtime_conf, modules, defaults, found, withheld)
    inherited = translation.inherited
    return spec if spec is None or inherited is None else replace(spec, inherited=inherited.models)


_DEFAULTS = frozenset({*flat_parameters(JobParameters()), "model_id", "model_version"})


def completed(document: JobDocument, spec: JobSpec, job_id: str) -> JobDocument:
    """Return the DAG with the defaults of this server and the name of the job's model."""
    given = spec.stated_conf.get("job_parameters", {}).get("common", {})
    known = spec.conf["job_parameters"]["common"]
    missing = {key: value for key, value in known.items() if key not in given}
    return replace(document, defaults={**document.defaults, **missing, **model_of(document.body, job_id)})


def model_of(body: Mapping[str, Any], job_id: str) -> dict[str, str]:
    """Return id and version of the models that the job makes, as the DAG names them, or FATE 2's own names."""
    conf = object_at(body, "dag", "conf")
    model_id, version = conf.get("model_id"), conf.get("model_version")
    return {
        "model_id": str(model_id) if model_id else job_id, "model_version": "0" if version is None else str(version),
    }  # fmt: skip


def as_fate_v1(document: JobDocument, spec: JobSpec) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the job as DSL and runtime conf. A value in the job has precedence over one of the document's defaults."""
    parameters = spec.conf["job_parameters"]
    common = {**document.defaults, **parameters["common"]}
    return spec.dsl, {**spec.conf, "job_parameters": {**parameters, "common": common}}


def bound(document: JobDocument) -> list[Any]:
    """Return the value whose digest a job is bound to."""
    return [document.format, document.body, document.defaults]


def title(_: JobDocument, beside: tuple[str, str]) -> tuple[str, str]:
    """Return the name and the description that were sent beside the DAG, which has no place for them."""
    return beside


def blocks(document: JobDocument) -> Iterator[Block]:
    """Yield the blocks of a DAG, which may be wrong: what it has below `party_tasks`.

    Public are the parties of a block, and how many workers its tasks have there."""
    for key, entry in objects_in(document.body, "dag", "party_tasks"):
        path: Path = ("dag", "party_tasks", key)
        yield Block(path, frozenset(parties_in(entry.get("parties"))), *_divided(entry))


def _divided(entry: Mapping[str, Any]) -> Parts:
    public, private = divided(entry, lambda key, _: key == "parties")
    counts, hidden = {}, dict(object_at(entry, "tasks"))
    for name, task in objects_in(entry, "tasks"):
        shown, others = divided(object_at(task, "parameters"), is_switch(()))
        if not shown:
            continue
        counts[name] = {"parameters": shown}
        hidden[name] = {key: one for key, one in {**task, "parameters": others}.items() if one or key != "parameters"}
        hidden = {key: one for key, one in hidden.items() if one or key != name}
    if counts:
        public["tasks"] = counts
        private = {key: one for key, one in {**private, "tasks": hidden}.items() if one or key != "tasks"}
    return public, private
