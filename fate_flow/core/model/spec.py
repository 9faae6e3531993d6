"""A submitted configuration, parsed once: what a job is meant to be, whatever document it came in.

Adapters (`jobspec/fate_v1/reader.py`) make a `JobSpec` from a document and refuse what they cannot express. Everything
behind them knows only these types. The FATE 2.x DAG fits without loss: a task names its parties, its inputs by key with
one or several sources, its outputs by kind and alias, a stage, and parameters that were merged per party.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fate_flow.core.model.policy import Policy
from fate_flow.core.model.retry import NEVER_AGAIN, RetryRule

READS_BY_NAME = frozenset({"Download", "Writer"})
"""Modules whose own parameters are namespace and name of what they read; a Reader has them below `table`."""


@dataclass(frozen=True, order=True)
class Party:
    """A seat in a job: a role and the id of the organisation that sits there."""

    role: str
    party_id: str

    def __str__(self) -> str:
        return f"{self.role} {self.party_id}"


@dataclass(frozen=True)
class Source:
    """Where one table or model of an input comes from: an output of an earlier task."""

    producer: str
    alias: str


@dataclass(frozen=True)
class Input:
    """One named input of a task. `kind` is data, model, isometric_model or cache; `key` names it inside its kind
    (`data`, `train_data`, ...; equal to the kind for models and caches)."""

    kind: str
    key: str
    sources: tuple[Source, ...]


@dataclass(frozen=True)
class DeclaredOutput:
    kind: str
    alias: str


@dataclass(frozen=True)
class NamedOutput:
    """What a task of another job made at the same party."""

    job_id: str
    task: str
    data_name: str

    def __str__(self) -> str:
        return f"{self.task}.{self.data_name} of job {self.job_id}"


@dataclass(frozen=True)
class TaskSpec:
    """One component of the DAG over all its parties."""

    name: str
    module: str
    parties: tuple[Party, ...]
    inputs: tuple[Input, ...] = ()
    outputs: tuple[DeclaredOutput, ...] = ()
    parameters: Mapping[Party, Mapping[str, Any]] = field(default_factory=dict)
    passed_at: frozenset[Party] = frozenset()   # parties where `need_run` is false
    after: frozenset[str] = frozenset()         # tasks that come first although it takes nothing from them
    stage: str = "default"
    timeout_seconds: int = 0                    # 0: the job's own limit is the only one
    party_timeouts: Mapping[Party, int] = field(default_factory=dict)   # where a party has another limit
    retry: RetryRule = NEVER_AGAIN
    stop_seconds: float | None = None           # from SIGTERM to SIGKILL; None: as each party has it
    priority: int = 0                           # higher first, among those of the job that may start
    policies: tuple[Policy, ...] = ()           # its own; the job's follow
    min_available: Mapping[str, int] = field(default_factory=dict)     # of a role, where not all are needed
    goes_on_without: frozenset[str] = frozenset()       # roles whose shares may break while the others run

    @property
    def producers(self) -> frozenset[str]:
        """The tasks that it takes something from."""
        return frozenset(source.producer for one in self.inputs for source in one.sources)

    @property
    def upstream(self) -> frozenset[str]:
        """The tasks that have succeeded before it begins: those that it takes something from, and those of `after`."""
        return self.producers | self.after

    def table_at(self, party: Party) -> tuple[str, str] | None:
        """Namespace and name of the table that it reads at this party because its parameters name it."""
        table = self._table_named_at(party)
        if not table or self.output_at(party) is not None:
            return None
        return str(table.get("namespace")), str(table.get("name"))

    def output_at(self, party: Party) -> NamedOutput | None:
        """The output of another job that it reads at this party because its parameters name it."""
        table = self._table_named_at(party)
        if not table or "namespace" in table or not {"job_id", "component_name", "data_name"} <= table.keys():
            return None
        return NamedOutput(str(table["job_id"]), str(table["component_name"]), str(table["data_name"]))

    def _table_named_at(self, party: Party) -> Mapping[str, Any]:
        given = self.parameters.get(party, {})
        table = given if self.module in READS_BY_NAME else given.get("table")
        return table if isinstance(table, Mapping) else {}

    def timeout_at(self, party: Party) -> int:
        """The seconds its worker may run at this party; 0: as long as the job may."""
        return self.party_timeouts.get(party, self.timeout_seconds)


@dataclass(frozen=True)
class JobParameters:
    """The effective job parameters of one party."""

    task_cores: int = 4
    task_parallelism: int = 1
    task_memory: int = 0                 # MB a task
    timeout_seconds: int = 259200        # of the whole job, from creation
    task_timeout_seconds: int = 0        # of each task; 0: none
    auto_retries: int = 0
    auto_retry_delay_seconds: float = 1
    computing_partitions: int = 4
    collect_type: str = "PUSH"
    federated_mode: str = "MULTIPLE"
    job_type: str = "train"
    extra: Mapping[str, Any] = field(default_factory=dict)   # everything else, as submitted


MOST_PRIORITY = 1_000
"""And `-MOST_PRIORITY` is the least."""

CONF_PARTS = ("job_parameters", "component_parameters")
"""What of a runtime conf can be changed after the submit."""


@dataclass(frozen=True)
class JobSpec:
    initiator: Party
    parties: tuple[Party, ...]                      # in the order of the document
    tasks: Mapping[str, TaskSpec]                   # in an order where those that are waited for come first
    parameters: Mapping[Party, JobParameters]
    name: str = ""
    description: str = ""
    priority: int = 0                               # in the queue; higher first
    retry: RetryRule = NEVER_AGAIN                  # of the job: here only what is said of a lack of capacity
    policies: tuple[Policy, ...] = ()
    max_failed_workers: int | None = None           # over all its tasks and parties; None: as many as it takes
    ttl_seconds: int | None = None                  # from its end, when what it left goes; None: as parties have it
    stage: str = "default"
    warnings: tuple[str, ...] = ()                  # what was ignored, for `data.warnings`
    conf: Mapping[str, Any] = field(default_factory=dict)   # the v1 runtime conf, completed: `f_runtime_conf`

    @property
    def common(self) -> JobParameters:
        """What the initiator itself goes by."""
        return self.parameters[self.initiator]

    @property
    def changeable_conf(self) -> dict[str, Any]:
        """What other parties are told of a conf that was changed."""
        return {part: self.conf.get(part) or {} for part in CONF_PARTS}

    def tasks_of(self, party: Party) -> tuple[TaskSpec, ...]:
        return tuple(task for task in self.tasks.values() if party in task.parties)

    @property
    def roles(self) -> dict[str, list[int]]:
        """`{role: [party ids]}`; the ids are numbers, as FATE has them in `f_roles` and in `create`."""
        found: dict[str, list[int]] = {}
        for party in self.parties:
            found.setdefault(party.role, []).append(int(party.party_id))
        return found
