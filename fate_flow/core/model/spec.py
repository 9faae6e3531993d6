"""The specification of a job, parsed once from a submitted document of any format.

Readers (`jobspec/fate_v1/reader.py`) make a `JobSpec` from a document and refuse what they cannot express. All other
code knows only these types. The FATE 2.x DAG fits without loss: a task names its parties, its inputs by key with
one or several sources, its outputs by kind and alias, a stage, and parameters that were merged per party.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from fate_flow.core.model.artifact import DEFAULT_STAGE
from fate_flow.core.model.document import AS_IN_FATE_V1, Disclosure, Paths
from fate_flow.core.model.policy import Policy
from fate_flow.core.model.program import ProgramSpec
from fate_flow.core.model.retry import NEVER_AGAIN, RetryRule


@dataclass(frozen=True, order=True)
class Party:
    """A seat in a job: a role and the party id of the organisation in it."""

    role: str
    party_id: str

    def __str__(self) -> str:
        return f"{self.role} {self.party_id}"


@dataclass(frozen=True)
class Source:
    """The output of an earlier task that is one table or model of an input."""

    producer: str
    alias: str


@dataclass(frozen=True, order=True)
class ModelReference:
    """A model in the stores of the parties: what a task of an earlier job has made. Each party reads its own part."""

    model_id: str
    version: int
    task: str
    output: str

    def __str__(self) -> str:
        return f"{self.task}.{self.output} of model {self.model_id} version {self.version}"


@dataclass(frozen=True)
class Input:
    """One named input of a task. `kind` is data, model, isometric_model or cache; `key` names it inside its kind
    (`data`, `train_data`, `input_model`, ...; equal to the kind where a DSL gives models and caches without a key).

    Its artifacts are those of its sources, then the stored models."""

    kind: str
    key: str
    sources: tuple[Source, ...]
    parties: frozenset[Party] | None = None     # that read it; None: all parties of the task
    models: tuple[ModelReference, ...] = ()     # of the store; only an input of kind model has some

    def is_read_at(self, party: Party) -> bool:
        return self.parties is None or party in self.parties


@dataclass(frozen=True)
class DeclaredOutput:
    kind: str
    alias: str


@dataclass(frozen=True)
class NamedOutput:
    """An output of a task of another job at the same party."""

    job_id: str
    task: str
    data_name: str

    def __str__(self) -> str:
        return f"{self.task}.{self.data_name} of job {self.job_id}"


@dataclass(frozen=True)
class NamedTable:
    """A table of the party that reads it."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"table {self.namespace}.{self.name}"


Stored = NamedTable | NamedOutput
"""What an input reads that no task of the job makes."""


@dataclass(frozen=True)
class Port:
    """Streams between the workers of a task: at each party of `listens` one worker listens, and workers of the parties
    in `connects` reach it."""

    name: str
    listens: tuple[Party, ...]
    connects: tuple[Party, ...]

    def callers_of(self, party: Party) -> tuple[Party, ...]:
        """Return the parties whose workers reach a worker of this one."""
        return tuple(one for one in self.connects if one != party) if party in self.listens else ()

    def called_by(self, party: Party) -> tuple[Party, ...]:
        """Return the parties whose workers a worker of this one reaches."""
        return tuple(one for one in self.listens if one != party) if party in self.connects else ()


@dataclass(frozen=True)
class OwnResources:
    """What one task states of its resources at a party; None: as the job says for all its tasks."""

    cores: int | None = None
    memory: int | None = None            # MB
    gpus: int | None = None
    queue: str | None = None             # a word like `JobParameters.queue`; empty: as each party decides
    labels: Sequence[str] | None = None  # words like `JobParameters.labels`


AS_THE_JOB = OwnResources()
OWN_RESOURCES = tuple(one.name for one in fields(OwnResources))
"""Their names, also in documents: in `task_conf` of a task, in `resources` of a job file, in `engine_run` of a DAG."""


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
    after: frozenset[str] = frozenset()         # earlier tasks that it waits for without using their outputs
    stage: str = DEFAULT_STAGE
    timeout_seconds: int = 0                    # 0: only the limit of the job applies
    party_timeouts: Mapping[Party, int] = field(default_factory=dict)   # limits that differ at a party
    resources: Mapping[Party, OwnResources] = field(default_factory=dict)   # where it states some of its own
    retry: RetryRule = NEVER_AGAIN
    stop_seconds: float | None = None           # from SIGTERM to SIGKILL; None: the configuration of each party
    priority: int = 0                           # among the tasks of the job that may start; higher first
    policies: tuple[Policy, ...] = ()           # its own; searched before those of the job
    min_available: Mapping[str, int] = field(default_factory=dict)     # by role, if not all its parties are needed
    goes_on_without: frozenset[str] = frozenset()       # roles whose shares may break while the others run
    programs: Mapping[Party, ProgramSpec] = field(default_factory=dict)    # what its workers run, if the job names it
    ports: tuple[Port, ...] = ()                # streams between its workers, by name
    stored: Mapping[Party, Mapping[str, tuple[Stored, ...]]] = field(default_factory=dict)    # by key; not in `inputs`
    reads_by_name: bool = False                 # its parameters name a table at their top level, not in `table`

    @property
    def producers(self) -> frozenset[str]:
        """The tasks whose outputs it uses."""
        return frozenset(source.producer for one in self.inputs for source in one.sources)

    @property
    def upstream(self) -> frozenset[str]:
        """The tasks that must succeed before it starts: its producers and those in `after`."""
        return self.producers | self.after

    def models_at(self, party: Party) -> tuple[ModelReference, ...]:
        """Return the stored models that this party reads for it."""
        return tuple(model for one in self.inputs if one.is_read_at(party) for model in one.models)

    def table_at(self, party: Party) -> tuple[str, str] | None:
        """Return namespace and name of the table that its parameters at this party name; None if they name none."""
        table = self._table_named_at(party)
        if not table or self.output_at(party) is not None:
            return None
        return str(table.get("namespace")), str(table.get("name"))

    def output_at(self, party: Party) -> NamedOutput | None:
        """Return the output of another job that its parameters at this party name; None if they name none."""
        table = self._table_named_at(party)
        if not table or "namespace" in table or not {"job_id", "component_name", "data_name"} <= table.keys():
            return None
        return NamedOutput(str(table["job_id"]), str(table["component_name"]), str(table["data_name"]))

    def stored_at(self, party: Party) -> tuple[Stored, ...]:
        """Return everything that its inputs at this party read and no task of the job makes."""
        return tuple(one for several in self.stored.get(party, {}).values() for one in several)

    def _table_named_at(self, party: Party) -> Mapping[str, Any]:
        given = self.parameters.get(party, {})
        table = given if self.reads_by_name else given.get("table")
        return table if isinstance(table, Mapping) else {}

    def resources_at(self, party: Party) -> OwnResources:
        """Return what it states of its resources at this party."""
        return self.resources.get(party, AS_THE_JOB)

    def timeout_at(self, party: Party) -> int:
        """Return for how many seconds its worker may run at this party; 0 if only the limit of the job applies."""
        return self.party_timeouts.get(party, self.timeout_seconds)


@dataclass(frozen=True)
class JobParameters:
    """The effective job parameters of one party."""

    task_cores: int = 4
    task_parallelism: int = 1
    task_memory: int = 0                 # MB a task
    task_gpus: int = 0                   # a task
    queue: str = ""                      # a word that each party maps to an engine of its own; empty: as it decides
    labels: Sequence[str] = ()           # words for the nodes that a worker needs; each party maps them on its engines
    longest_pending_seconds: float = 0   # that a worker may wait in a cluster; 0: as long as the party lets it
    timeout_seconds: int = 259200        # for the whole job, from its creation
    task_timeout_seconds: int = 0        # for each task; 0: no limit
    auto_retries: int = 0
    auto_retry_delay_seconds: float = 1
    computing_partitions: int = 4
    collect_type: str = "PUSH"
    federated_mode: str = "MULTIPLE"
    job_type: str = "train"
    extra: Mapping[str, Any] = field(default_factory=dict)   # everything else, as submitted


MOST_PRIORITY = 1_000
"""The highest priority; the lowest one is `-MOST_PRIORITY`."""

CONF_PARTS = ("job_parameters", "component_parameters")
"""The parts of a runtime conf that can be changed after the submit."""


@dataclass(frozen=True)
class InheritedModels:
    """The models that a job takes over from another one, with the tasks that have made them there."""

    model_id: str
    version: int
    tasks: frozenset[str]


@dataclass(frozen=True)
class JobSpec:
    initiator: Party
    parties: tuple[Party, ...]                      # in the order of the document
    tasks: Mapping[str, TaskSpec]                   # in topological order
    parameters: Mapping[Party, JobParameters]
    name: str = ""
    description: str = ""
    priority: int = 0                               # in the queue; higher first
    retry: RetryRule = NEVER_AGAIN                  # of the job itself: for a lack of capacity
    policies: tuple[Policy, ...] = ()
    max_failed_workers: int | None = None           # over all its tasks and parties; None: no limit
    ttl_seconds: int | None = None                  # from its end until its data is removed; None: each party's setting
    stage: str = "default"
    model_id: str = ""                              # of the models that its tasks make; empty: the id of the job
    model_version: int = 0                          # of those that its first run makes; each rerun makes the next one
    inherited: InheritedModels | None = None        # of the tasks that do not run, since another job has run them
    warnings: tuple[str, ...] = ()                  # what was ignored, for `data.warnings`
    dsl: Mapping[str, Any] = field(default_factory=dict)    # the job as a v1 DSL: `f_dsl`
    conf: Mapping[str, Any] = field(default_factory=dict)   # as a v1 runtime conf, completed: `f_runtime_conf`
    stated_conf: Mapping[str, Any] = field(default_factory=dict, compare=False)     # before defaults were filled in
    paths: Paths = field(default=AS_IN_FATE_V1, compare=False, repr=False)     # of the submitted document
    withheld: frozenset[Party] = frozenset()        # seats whose own parameters are not, or not all, known here
    disclosure: Disclosure | None = field(default=None, compare=False, repr=False)      # of the document

    @cached_property
    def may_miss_parties(self) -> bool:
        """Whether a task can do without a party at all: only with a minimum or a policy. Asked for each task."""
        return bool(self.policies) or any(task.min_available or task.policies for task in self.tasks.values())

    @property
    def common(self) -> JobParameters:
        """The parameters of the initiator."""
        return self.parameters[self.initiator]

    def parameters_of(self, task: TaskSpec, party: Party) -> JobParameters:
        """Return the parameters of a party as they are for one of its tasks, which may state resources of its own."""
        own, of_job = task.resources_at(party), self.parameters[party]
        if own == AS_THE_JOB:
            return of_job
        stated: dict[str, Any] = {
            "task_cores": own.cores, "task_memory": own.memory, "task_gpus": own.gpus, "queue": own.queue,
            "labels": own.labels,
        }  # fmt: skip
        if own.cores is not None:                # FATE's key for a node counts more than the cores of the job alone
            stated["extra"] = {key: value for key, value in of_job.extra.items() if key != "eggroll_run"}
        return replace(of_job, **{key: value for key, value in stated.items() if value is not None})

    @property
    def changeable_conf(self) -> dict[str, Any]:
        """The part of the conf that other parties get when it was changed."""
        return {part: self.conf.get(part) or {} for part in CONF_PARTS}

    def has_own_resources(self, party: Party) -> bool:
        """Return whether one of the tasks states resources of its own at this party."""
        return any(party in task.resources for task in self.tasks.values())

    def tasks_of(self, party: Party) -> tuple[TaskSpec, ...]:
        return tuple(task for task in self.tasks.values() if party in task.parties)

    def run_at(self, party: Party) -> tuple[TaskSpec, ...]:
        """Return the tasks with a worker at this party: those that it does not pass."""
        return tuple(task for task in self.tasks_of(party) if party not in task.passed_at)

    @property
    def roles(self) -> dict[str, list[int]]:
        """`{role: [party ids]}`; the ids are numbers, as in FATE's `f_roles` and `create`."""
        found: dict[str, list[int]] = {}
        for party in self.parties:
            found.setdefault(party.role, []).append(int(party.party_id))
        return found
