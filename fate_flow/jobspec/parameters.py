"""Change the parameters of a submitted job: what may change, and the resulting job.

A change has only the differing values: objects are merged key by key with those of the job, other values are replaced,
and null removes a value. Roles, parties, the DSL and values with a command of their own cannot change. A key that v1
does not know is stored in the conf like any other; the parser of the conf warns about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import shown, shown_key
from fate_flow.core.model.spec import CONF_PARTS, JobSpec
from fate_flow.jobspec.fate_v1.job_parameters import AUTOMATIC, is_known

JOB, COMPONENTS = CONF_PARTS

CHANGEABLE = (
    "task_cores", "task_memory", "task_gpus", "queue", "labels", "longest_pending", "task_parallelism",
    "computing_partitions", "timeout", "task_timeout", "auto_retries", "auto_retry_delay", "retry", "policies",
    "min_available", "stop_duration", "ttl", "max_failed_workers", "task_conf", "eggroll_run", "spark_run",
    "rabbitmq_run", "pulsar_run",
)  # fmt: skip
"""Keys of `job_parameters` that may change. The other keys of v1 are fixed, or have a command of their own."""

_BY_COMMAND = {"priority": "flow job priority changes it while the job waits"}


@dataclass(frozen=True)
class Change:
    """A client's change as received: two `{common, role}` pairs."""

    job_parameters: Mapping[str, Any]
    component_parameters: Mapping[str, Any]

    def of(self, kind: str) -> Mapping[str, Any]:
        return self.job_parameters if kind == JOB else self.component_parameters


def read_change(body: Mapping[str, Any]) -> Change:
    """Return the change in a body. Raise BadRequest for an empty one, or one that is not an object."""
    said = {kind: body.get(kind) for kind in CONF_PARTS}
    for kind, value in said.items():
        if value is not None and not isinstance(value, Mapping):
            raise BadRequest(f"{kind}: {shown(value)} is not an object")
    if all(value is None for value in said.values()):
        raise BadRequest(f"required argument are missing: {' or '.join(CONF_PARTS)}; nothing would be changed")
    return Change(said[JOB] or {}, said[COMPONENTS] or {})


def changed_conf(spec: JobSpec, change: Change) -> dict[str, Any]:
    """Return the runtime conf of the job with the change; the parser of the conf checks the values.

    Raise BadRequest for a key that cannot change, or an unknown component."""
    for path, block, known in _blocks(spec.conf, change, JOB):
        _check_keys(path, block, known)
    for path, block, _ in _blocks(spec.conf, change, COMPONENTS):
        _check_components(path, block, spec)
    merged = {kind: _merged(spec.conf.get(kind) or {}, _one_way_to_retry(change.of(kind))) for kind in CONF_PARTS}
    return {**spec.conf, **merged}


def changed_components(old: JobSpec, new: JobSpec) -> tuple[str, ...]:
    """Return the components whose own parameters differ at some party."""
    def parameters_of(spec: JobSpec, name: str) -> tuple[Any, ...]:
        task = spec.tasks[name]
        return task.parameters, task.passed_at

    return tuple(name for name in new.tasks if parameters_of(old, name) != parameters_of(new, name))


# ------------------------------------------------------------------ checks

Block = tuple[str, Mapping[str, Any], Mapping[str, Any]]
"""A block of a change: its path, its values, and the current values of the job there."""


def _blocks(conf: Mapping[str, Any], change: Change, kind: str) -> Iterator[Block]:
    """Yield the common block and those below roles. Raise BadRequest for anything that is not a block."""
    said, known = change.of(kind), conf.get(kind) or {}
    yield _block(f"{kind}.common", said.get("common"), known.get("common"))
    roles = _object(f"{kind}.role", said.get("role"))
    for role, below in roles.items():
        path, there = f"{kind}.role.{shown_key(role)}", _object("", (known.get("role") or {}).get(role))
        for selector, block in _object(path, below).items():
            yield _block(f"{path}.{shown_key(selector)}", block, there.get(selector))


def _block(path: str, said: Any, known: Any) -> Block:
    return path, _object(path, said), known if isinstance(known, Mapping) else {}


def _object(path: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise BadRequest(f"{path}: {shown(value)} is not an object")
    return value


def _check_keys(path: str, block: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raise BadRequest for a key that cannot change, unless its value is the current one."""
    for key, value in block.items():
        if is_known(key) and key not in CHANGEABLE and value != known.get(key):
            instead = _BY_COMMAND.get(key, f"these can: {', '.join(CHANGEABLE)}")
            raise BadRequest(f"{path}.{shown_key(key)}: cannot be changed; {instead}")


def _check_components(path: str, block: Mapping[str, Any], spec: JobSpec) -> None:
    for name in block:
        if name not in spec.tasks:
            known = ", ".join(spec.tasks)
            raise BadRequest(f"{path}.{shown_key(name)}: is not one of this job's components: {known}")


# ------------------------------------------------------------------ the result


def _one_way_to_retry(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the change so that `retry` removes FATE's own keys for it, and the other way round."""
    common = said.get("common")
    if not isinstance(common, Mapping):
        return said
    if common.get("retry") is not None:
        return {**said, "common": {**dict.fromkeys(AUTOMATIC), **common}}
    if any(common.get(key) is not None for key in AUTOMATIC):
        return {**said, "common": {"retry": None, **common}}
    return said


def _merged(general: Mapping[str, Any], special: Mapping[str, Any]) -> dict[str, Any]:
    """Return a merged copy; null removes a value."""
    found = dict(general)
    for key, value in special.items():
        old = found.get(key)
        if value is None:
            found.pop(key, None)
        elif isinstance(old, Mapping) and isinstance(value, Mapping):
            found[key] = _merged(old, value)
        else:
            found[key] = value
    return found
