"""Documents and modules for the tests of the v1 adapter: the examples of the reference, and factories."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fate_flow.components.providers.builtin import BUILTIN_PROVIDER
from fate_flow.core.model.modules import ModuleInfo, ProviderInfo
from fate_flow.core.model.spec import JobParameters, JobSpec, Party
from tests.kit.jobspec.parsing import parse, problems

GUEST, HOST, SECOND_HOST, ARBITER = (
    Party("guest", "9001"), Party("host", "9002"), Party("host", "9004"), Party("arbiter", "9003"))

DEFAULTS = JobParameters(task_cores=4, timeout_seconds=259200)


@dataclass(frozen=True)
class FakeModule:
    """A module that takes any parameters, but for those named here."""

    roles: frozenset[str] = frozenset({"guest", "host"})
    default_task_cores: int | None = None
    provider: ProviderInfo = BUILTIN_PROVIDER
    refused: Mapping[str, str] = field(default_factory=dict)

    def check(self, parameters: Mapping[str, Any], role: str) -> list[str]:
        return [f"{key}: {self.refused[key]}" for key in parameters if key in self.refused]


@dataclass(frozen=True)
class FussyModule(FakeModule):
    """A module that knows its parameters."""

    known: frozenset[str] = frozenset()

    def warnings(self, parameters: Mapping[str, Any]) -> list[str]:
        return [f"{key} has no effect" for key in parameters if key not in self.known]


EVERYWHERE = frozenset({"guest", "host", "arbiter"})

MODULES: Mapping[str, ModuleInfo] = {
    "Upload": FakeModule(frozenset({"local"}), default_task_cores=1),
    "Reader": FakeModule(),
    "DataTransform": FakeModule(),
    "Intersection": FakeModule(refused={"cardinality_only": "is not offered"}),
    "HeteroLR": FakeModule(EVERYWHERE),
    "HeteroSecureBoost": FakeModule(EVERYWHERE),
    "Evaluation": FakeModule(),
    "SecureAddExample": FakeModule(),
    "Fussy": FussyModule(known=frozenset({"known"})),
}

UPLOAD_DSL: dict[str, Any] = {"components": {"upload_0": {"module": "Upload"}}}
UPLOAD_CONF: dict[str, Any] = {
    "dsl_version": 2,
    "initiator": {"role": "local", "party_id": 0},
    "role": {"local": [0]},
    "job_parameters": {"common": {"federated_mode": "SINGLE", "task_cores": 1}},
    "component_parameters": {"role": {"local": {"0": {"upload_0": {
        "file": "data/site_a.csv", "head": 1, "partition": 2, "id_delimiter": ",",
        "namespace": "demo", "name": "site_a", "destroy": True}}}}},
}

TWO_DSL: dict[str, Any] = {"components": {
    "reader_0": {"module": "Reader", "output": {"data": ["raw"]}},
    "prep_0": {"module": "DataTransform", "input": {"data": {"data": ["reader_0.raw"]}},
               "output": {"data": ["clean"], "model": ["prep_model"]}},
    "match_0": {"module": "Intersection", "input": {"data": {"data": ["prep_0.clean"]}},
                "output": {"data": ["joined"]}}}}
TWO_CONF: dict[str, Any] = {
    "dsl_version": 2,
    "initiator": {"role": "guest", "party_id": 9001},
    "role": {"guest": [9001], "host": [9002]},
    "job_parameters": {"common": {"job_type": "train", "task_cores": 2, "task_parallelism": 1,
                                  "computing_partitions": 4, "auto_retries": 1, "timeout": 3600}},
    "component_parameters": {
        "common": {"match_0": {"intersect_method": "raw"}},
        "role": {"guest": {"0": {"reader_0": {"table": {"namespace": "demo", "name": "site_a"}},
                                 "prep_0": {"with_label": True, "label_name": "y", "output_format": "dense"}}},
                 "host": {"0": {"reader_0": {"table": {"namespace": "demo", "name": "site_b"}},
                                "prep_0": {"with_label": False, "output_format": "dense"}}}}},
}

ARBITER_DSL: dict[str, Any] = {"components": {
    **TWO_DSL["components"],
    "fit_0": {"module": "HeteroLR", "input": {"data": {"train_data": ["match_0.joined"]}},
              "output": {"data": ["scores"], "model": ["weights"]}},
    "report_0": {"module": "Evaluation", "input": {"data": {"data": ["fit_0.scores"]}},
                 "output": {"data": ["metrics"]}}}}
ARBITER_CONF: dict[str, Any] = {
    "dsl_version": 2, "initiator": {"role": "guest", "party_id": 9001},
    "role": {"guest": [9001], "host": [9002, 9004], "arbiter": [9003]},
    "job_parameters": {"common": {"task_cores": 2, "federated_status_collect_type": "PUSH"}},
    "component_parameters": {
        "common": {"match_0": {"intersect_method": "raw"},
                   "fit_0": {"max_iter": 5, "penalty": "L2", "alpha": 0.05}},
        "role": {"guest": {"0": {"reader_0": {"table": {"namespace": "demo", "name": "site_a"}},
                                 "prep_0": {"with_label": True, "label_name": "y"}}},
                 "host": {"0": {"reader_0": {"table": {"namespace": "demo", "name": "site_b"}}},
                          "1": {"reader_0": {"table": {"namespace": "demo", "name": "site_c"}}},
                          "0|1": {"prep_0": {"with_label": False}, "report_0": {"need_run": False}}}}},
}

TOY_DSL: dict[str, Any] = {"components": {"secure_add_example_0": {"module": "SecureAddExample"}}}
TOY_CONF: dict[str, Any] = {
    "dsl_version": 2, "initiator": {"role": "guest", "party_id": "9999"},
    "role": {"guest": ["9999"], "host": ["10000"]},
    "job_parameters": {"common": {"task_cores": 2},
                       "role": {"guest": {"0": {"user": "ann"}}, "host": {"0": {"user": "bob"}}}},
    "component_parameters": {
        "common": {"secure_add_example_0": {"partition": 4, "data_num": 1000}},
        "role": {"guest": {"0": {"secure_add_example_0": {"seed": 123}}},
                 "host": {"secure_add_example_0": {"seed": 321}}}},
    "conf_path": "/home/ann/toy.json", "dsl_path": "/home/ann/dsl.json",
}

EXAMPLES = {
    "upload": (UPLOAD_DSL, UPLOAD_CONF),
    "two parties": (TWO_DSL, TWO_CONF),
    "arbiter": (ARBITER_DSL, ARBITER_CONF),
    "toy": (TOY_DSL, TOY_CONF),
}


def a_conf(**changes: Any) -> dict[str, Any]:
    """A conf of one guest, two hosts and an arbiter, with other values for some of its top keys; None drops a key."""
    conf: dict[str, Any] = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": 9001},
        "role": {"guest": [9001], "host": [9002, 9004], "arbiter": [9003]},
    }
    changed = {**conf, **changes}
    return {key: value for key, value in changed.items() if value is not None}


def a_dsl(**components: Any) -> dict[str, Any]:
    """A DSL of these components; of one Reader `x` when none is named."""
    return {"components": components or {"x": {"module": "Reader"}}}


def changed(document: Any, path: str, value: Any) -> Any:
    """A copy of a document with another value at a path (`a.b.0`)."""
    copied = copy.deepcopy(document)
    *above, last = path.split(".")
    inside = copied
    for key in above:
        inside = inside.setdefault(key, {})
    inside[last] = value
    return copied


def read(dsl: Any = None, conf: Any = None, *, strict: bool = False) -> JobSpec:
    """What `parse` makes of them; small ones that are right where none are given."""
    return parse(a_dsl() if dsl is None else dsl, a_conf() if conf is None else conf,
                 modules=MODULES, defaults=DEFAULTS, strict=strict)


def with_job_parameters(common: Mapping[str, Any] | None = None, **roles: Any) -> JobSpec:
    """The job with these job parameters."""
    return read(conf=a_conf(job_parameters={"common": common or {}, "role": roles}))


def with_parameters(common: Mapping[str, Any] | None = None, **roles: Any) -> JobSpec:
    """The job with these component parameters."""
    return read(conf=a_conf(component_parameters={"common": common or {}, "role": roles}))


def problems_of(dsl: Any = None, conf: Any = None, *, strict: bool = False) -> list[str]:
    """All that is wrong with them."""
    return problems(a_dsl() if dsl is None else dsl, a_conf() if conf is None else conf,
                    modules=MODULES, defaults=DEFAULTS, strict=strict)
