"""Read `job_parameters` of a runtime conf."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fate_flow.core.model.artifact import STAGES
from fate_flow.core.model.grammar import shown, shown_key
from fate_flow.core.model.resources import CORES_PER_NODE
from fate_flow.core.model.retry import UNSAID, RetryEvent
from fate_flow.core.model.spec import MOST_PRIORITY, JobParameters
from fate_flow.core.quotas.queues import MOST_LABELS, QUEUE, QUEUE_IS
from fate_flow.jobspec.fate_v1.after_document import read_after
from fate_flow.jobspec.fate_v1.minimum_document import read_minimum
from fate_flow.jobspec.fate_v1.model_document import read_model_name
from fate_flow.jobspec.fate_v1.policy_document import read_policies
from fate_flow.jobspec.fate_v1.ports_document import read_ports
from fate_flow.jobspec.fate_v1.retry_document import read_retry
from fate_flow.jobspec.fate_v1.seats_document import INPUT_PARTIES, PARTIES, read_input_parties, read_parties
from fate_flow.jobspec.text.document import MAX_WHOLE, Node

_OURS = ("retry", "policies", "min_available", "stop_duration", "priority")      # of the job and of a component
_OF_THE_DAG = ("after", "ports", "stage", PARTIES, INPUT_PARTIES)                # of a component

PREDICT = "predict"
_OF_PREDICTION = ("model_id", "model_version")      # of the deployed model; the DSL names what is read of it

LEAST_TTL = 60
"""Seconds: a client that waits for the end of a job needs time to read its result."""

REMOVED_KEYS_WARNING = "[WARN]backend,work_mode is removed,it does not take effect!"
"""The `retmsg` of a 1.11 server if the conf has one of these keys; clients look for it."""


def flat_parameters(parameters: JobParameters) -> dict[str, Any]:
    """Return the job parameters under FATE's keys. Of those that FATE does not have, only those that ask."""
    known = {key: getattr(parameters, one.field) for key, one in _JOB_PARAMETERS.items() if one.field}
    given = {key: value for key, value in known.items() if value or key not in _NOT_IN_FATE}
    return {**given, **parameters.extra}


def is_known(key: str) -> bool:
    """Return whether v1 has such a job parameter, even if it has no effect here."""
    return key in _JOB_PARAMETERS or key in _REMOVED or key in _SET_BY_SERVERS or key == _INHERITANCE


def job_block(node: Node, names: Collection[str]) -> dict[str, Any]:
    """Return the checked values of a block of job parameters, under FATE's keys."""
    block: dict[str, Any] = {}
    for key, inside in node.members().items():
        if not inside.is_given:
            continue
        if key in _OF_PREDICTION and node.at("job_type").value == PREDICT:
            continue
        if key not in _JOB_PARAMETERS:
            _note_other_parameter(key, inside)
            continue
        value = _JOB_PARAMETERS[key].read(inside)
        if value is not None:
            block[key] = value
    node.at("task_conf").nothing_but(names)
    _check_one_way_to_retry(node)
    for event, what in _OF_THE_JOB_ALONE.items():
        _check_of_the_job(node, event, what)
    return block


_OF_THE_JOB_ALONE = {RetryEvent.NO_CAPACITY: "capacity", RetryEvent.PARTY_LOST: "a party"}


def _check_of_the_job(node: Node, event: RetryEvent, what: str) -> None:
    """Add a problem if a component names an event for which only the job can wait, and the job does not name it."""
    of_job = node.at("retry").at("on_events")
    if _names(of_job, event) or (not of_job.is_given and event in UNSAID):
        return
    for conf in node.at("task_conf").members().values():
        own = conf.at("retry").at("on_events")
        if _names(own, event):
            place = of_job.shown_path
            own.wrong(f"{event.value} is only for the job, which waits for {what} as a whole: name it in {place}")


def _names(node: Node, event: RetryEvent) -> bool:
    return isinstance(node.value, list) and event.value in node.value


def check_places(node: Node, initiators: Collection[str]) -> None:
    """Report keys below `job_parameters.role` that apply to the whole job and have no effect there.

    Our keys are problems. FATE's keys are warnings, except in the blocks of `initiators`, which the initiator uses."""
    for below in node.at("role").members().values():
        for block in below.members().values():
            _refuse_ours(block, "job_parameters.common", (*_OURS, "max_failed_workers", "ttl", "model"))
            for name, conf in block.at("task_conf").members().items():
                _refuse_ours(conf, f"job_parameters.common.task_conf.{shown_key(name)}", (*_OURS, *_OF_THE_DAG))
            for key in OF_THE_JOB if block.path not in initiators else ():
                if block.at(key).is_given:
                    block.at(key).without_effect("it applies to the whole job: set it in job_parameters.common")


def _refuse_ours(block: Node, place: str, ours: Collection[str] = _OURS) -> None:
    for key in ours:
        if block.at(key).is_given:
            block.at(key).wrong(f"cannot differ by party, it applies to all: set it in {place}")


AUTOMATIC = ("auto_retries", "auto_retry_delay")
"""FATE's keys for `retry`."""


def _check_one_way_to_retry(node: Node) -> None:
    for key in AUTOMATIC:
        if node.at("retry").is_given and node.at(key).is_given:
            node.at(key).wrong("means the same as retry: give only one of both")


def _note_other_parameter(key: str, node: Node) -> None:
    if key in _REMOVED:
        node.findings.warn(REMOVED_KEYS_WARNING)
    elif key == _INHERITANCE:
        if node.value:
            node.wrong("reusing finished components of another job is not offered")
    elif key in _SET_BY_SERVERS:
        node.without_effect("the servers set it")
    else:
        node.ignored(f"is not known{node.nearest(key, _OURS)}")


def job_parameters(base: JobParameters, said: Mapping[str, Any]) -> JobParameters:
    fields = {key: one.field for key, one in _JOB_PARAMETERS.items() if one.field}
    known = {fields[key]: value for key, value in said.items() if key in fields}
    extra = {key: value for key, value in said.items() if key not in fields}
    return replace(base, **known, extra={**base.extra, **extra})


def _above_zero(node: Node) -> int | None:
    return node.whole(1, "a whole number above 0")


def _zero_or_more(node: Node) -> int | None:
    return node.whole(0, "a whole number of 0 or more")


def _ttl(node: Node) -> int | None:
    return node.whole(LEAST_TTL, f"a whole number of seconds, {LEAST_TTL} or more")


def _priority(node: Node) -> int | None:
    value = node.value
    if type(value) is int and -MOST_PRIORITY <= value <= MOST_PRIORITY:
        return value
    node.wrong(f"{shown(value)} is not a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}")
    return None


def _seconds_or_text(node: Node) -> float | None:
    """Read seconds of a key of FATE's, which clients also write as text."""
    text = node.value
    if isinstance(text, str) and _NUMBER.fullmatch(text):
        return _seconds(node._replace(value=float(text) if "." in text else int(text)))
    return _seconds(node)


_NUMBER = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?")


def _seconds(node: Node) -> float | None:
    value = node.value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MAX_WHOLE:
        return value
    node.wrong(f"{shown(value)} is not a number of seconds from 0 to {MAX_WHOLE}")
    return None


def _one_of(*choices: str) -> Callable[[Node], str | None]:
    def read(node: Node) -> str | None:
        if node.value in choices:
            return str(node.value)
        node.wrong(f"{shown(node.value)} is not one of {', '.join(choices)}")
        return None

    return read


def _text(node: Node) -> str | None:
    if isinstance(node.value, str):
        return node.value
    node.wrong(f"{shown(node.value)} is not text")
    return None


def _object(node: Node) -> Mapping[str, Any] | None:
    return node.value if node.is_object() else None


def _queue(node: Node) -> str:
    word = _text(node) or ""
    if word and not QUEUE.fullmatch(word):
        node.wrong(f"{shown(word)} is not a queue: {QUEUE_IS}")
        return ""
    return word


def _labels(node: Node) -> list[str]:
    """Read words for nodes; each stands once."""
    if not isinstance(node.value, list):
        node.wrong(f"{shown(node.value)} is not a list of labels")
        return []
    labels = [one for one in node.value if isinstance(one, str) and QUEUE.fullmatch(one)]
    if wrong := [one for one in node.value if one not in labels]:
        node.wrong(f"{shown(wrong[0])} is not a label: {QUEUE_IS}")
    if len(labels) > MOST_LABELS:
        node.wrong(f"has {len(labels)} labels; {MOST_LABELS} are the most")
    return list(dict.fromkeys(labels))


def _eggroll_run(node: Node) -> Mapping[str, Any] | None:
    if not node.is_object():
        return None
    cores = node.at(CORES_PER_NODE)
    return {**node.value, CORES_PER_NODE: _zero_or_more(cores)} if cores.is_given else node.value


def _task_conf(node: Node) -> Mapping[str, Any] | None:
    """Read the options of each component: launcher options, which have no effect, and limits, which have."""
    found: dict[str, Any] = {}
    for name, conf in node.members().items():
        if not conf.is_given or not conf.is_object():
            continue
        found[name] = dict(conf.value)
        conf.only({*_OF_A_TASK, *_LAUNCHER_OPTIONS}, _OURS)
        for key, read in _OF_A_TASK.items():
            if conf.at(key).is_given:
                found[name][key] = read(conf.at(key))
        for key in _LAUNCHER_OPTIONS:
            if conf.at(key).is_given:
                conf.at(key).without_effect("tasks are launched as local processes")
    return found


@dataclass(frozen=True)
class _Key:
    """A key of job_parameters: its reader, and the field for its value; without a field, it is kept in `extra`."""

    read: Callable[[Node], Any]
    field: str = ""


_JOB_PARAMETERS: Mapping[str, _Key] = {
    "job_type": _Key(_one_of("train", PREDICT), "job_type"),
    "task_cores": _Key(_above_zero, "task_cores"),
    "task_parallelism": _Key(_above_zero, "task_parallelism"),
    "task_memory": _Key(_zero_or_more, "task_memory"),
    "task_gpus": _Key(_zero_or_more, "task_gpus"),
    "queue": _Key(_queue, "queue"),
    "labels": _Key(_labels, "labels"),
    "longest_pending": _Key(_seconds, "longest_pending_seconds"),
    "computing_partitions": _Key(_above_zero, "computing_partitions"),
    "federated_status_collect_type": _Key(_one_of("PUSH", "PULL"), "collect_type"),
    "federated_mode": _Key(_one_of("SINGLE", "MULTIPLE"), "federated_mode"),
    "auto_retries": _Key(_zero_or_more, "auto_retries"),
    "auto_retry_delay": _Key(_seconds_or_text, "auto_retry_delay_seconds"),
    "timeout": _Key(_above_zero, "timeout_seconds"),
    "task_timeout": _Key(_zero_or_more, "task_timeout_seconds"),
    "retry": _Key(read_retry),
    "policies": _Key(read_policies),
    "min_available": _Key(read_minimum),
    "stop_duration": _Key(_seconds),
    "priority": _Key(_priority),
    "max_failed_workers": _Key(_zero_or_more),
    "ttl": _Key(_ttl),
    "model": _Key(read_model_name),
    "task_conf": _Key(_task_conf),
    "eggroll_run": _Key(_eggroll_run),
    "spark_run": _Key(_object),
    "rabbitmq_run": _Key(_object),
    "pulsar_run": _Key(_object),
    "user": _Key(_text),
}

OF_THE_JOB = ("timeout", *AUTOMATIC, "federated_mode", "federated_status_collect_type")
"""FATE's keys that apply to the whole job. Every party reads them in the blocks of the initiator, too."""

_NOT_IN_FATE = frozenset({"task_gpus", "queue", "labels", "longest_pending"})
_REMOVED = frozenset({"work_mode", "backend"})
_INHERITANCE = "inheritance_info"
_OF_A_TASK: Mapping[str, Callable[[Node], Any]] = {
    "cores": _above_zero, "memory": _zero_or_more, "gpus": _zero_or_more, "queue": _queue,
    "labels": _labels,
    "timeout": _zero_or_more, "stop_duration": _seconds, "retry": read_retry, "policies": read_policies,
    "priority": _priority, "min_available": read_minimum, "after": read_after,
    "ports": read_ports, "stage": _one_of(*STAGES), PARTIES: read_parties, INPUT_PARTIES: read_input_parties,
}
_LAUNCHER_OPTIONS = ("launcher", "world_size")
_SET_BY_SERVERS = frozenset({
    "computing_engine", "storage_engine", "federation_engine", "engines_address", "federation_info",
    "adaptation_parameters", "model_id", "model_version", "roles", "role_parameters", "assistant_role",
    "map_table_name", "map_namespace", "dsl_version", "federated_data_exchange_type",
})
