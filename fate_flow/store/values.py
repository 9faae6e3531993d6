"""The stored values that are not values of the core: documents, tables, outputs of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from fate_flow.core.model.document import Disclosure, JobDocument, fate_v1_document
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import ModelReference, Party
from fate_flow.core.notifications.notification import Notification
from fate_flow.core.notifications.subscribers import Target


@dataclass(frozen=True)
class Document:
    """What the rows of a job keep of its document, as JSON values.

    A document of another format than FATE v1 is in `own`. Then `dsl` and `runtime_conf` show its job in the form of
    FATE v1, to clients and to plain v1 parties; nothing here parses them."""

    dsl: Mapping[str, Any]
    runtime_conf: Mapping[str, Any]
    on_party: Mapping[str, Any]
    name: str = ""
    description: str = ""
    tag: str = ""
    federated_mode: str = "MULTIPLE"
    collect_type: str = "PUSH"
    own: JobDocument | None = None              # without its disclosure
    disclosure: Disclosure | None = None        # of the document itself; None: it is known here as a whole
    is_compared: bool = True                    # False: stored by an older release, which ignored a disclosure

    @property
    def content(self) -> JobDocument:
        """Return the document itself: all that a reader parses and a job is bound to."""
        content = self.own or fate_v1_document(self.dsl, self.runtime_conf)
        return content if self.disclosure is None else replace(content, disclosure=self.disclosure)

    def with_conf(self, runtime_conf: Mapping[str, Any]) -> Document:
        """Return the document after a change of parameters, without a disclosure. Changes are in the form of FATE v1,
        so it is so, too."""
        return replace(self, runtime_conf=runtime_conf, own=None, disclosure=None)


@dataclass(frozen=True)
class Submission:
    request_id: str
    job_id: str
    digest: str
    retcode: int | None = None       # None: not decided yet
    retmsg: str = ""
    by: str = ""                     # the client that has signed it; empty if clients need not sign


class Delivery(Enum):
    """What has become of a notification to one target."""

    WAITING = "waiting"
    SENT = "sent"
    DROPPED = "dropped"


@dataclass(frozen=True)
class StoredNotification:
    """A notification to one target."""

    number: int
    target: Target
    notification: Notification
    state: Delivery = Delivery.WAITING
    tries: int = 0
    error: str = ""                  # of the last try
    end_time: int = 0                # when it was sent or dropped


@dataclass(frozen=True)
class TableMeta:
    namespace: str
    name: str
    uri: str
    count: int
    schema: Mapping[str, Any]
    partitions: int = 1
    origin: str = "upload"
    job_id: str = ""
    id_delimiter: str = ","
    have_head: bool = True
    is_disabled: bool = False
    create_time: int = 0
    extend_sid: bool = False          # its ids were generated
    replaced: int = 0                 # rows that a later one with the same id replaced


@dataclass(frozen=True)
class Connector:
    """A named connection to a database server outside of this party's tables."""

    name: str
    engine: str
    info: Mapping[str, Any]


READ = "(read)"
"""The data name for a table that a task read by its parameters and did not hand on. No document can use this name."""


@dataclass(frozen=True)
class OutputTable:
    """A table that a party task made; with the data name READ, a table that it read."""

    task: TaskKey
    data_name: str
    namespace: str
    name: str
    written_by: str = ""        # the job that had written the table at that time; empty if unknown


@dataclass(frozen=True)
class Metric:
    """A metric of a version of a party task, or a piece of one. `core/metrics/form.py` says what its points are."""

    task: TaskKey
    namespace: str
    name: str
    data: tuple[tuple[Any, ...], ...]
    meta: Mapping[str, Any]


@dataclass(frozen=True)
class MetricPiece:
    """A piece of a metric, with its place among all that were saved."""

    number: int
    metric: Metric


@dataclass(frozen=True)
class StoredModel:
    """This party's part of a model in its store: a file with what one task has made under one key."""

    reference: ModelReference
    party: Party
    kind: str
    sha256: str                      # of the file
    size: int                        # of the file, in bytes
    job_id: str                      # of the job that has made it
    initiator: str                   # the party id of the initiator of that job
    task_version: int
    component: str
    roles: Mapping[str, Any]         # the party ids of that job by role
    metadata: Mapping[str, Any] = field(default_factory=dict)      # what the component says of it
    create_time: int = 0

    @property
    def party_ids(self) -> frozenset[str]:
        """The parties that took part in the job that has made it."""
        return frozenset(str(one) for ids in self.roles.values() for one in ids)

    @property
    def maker(self) -> tuple[str, str, frozenset[Party]]:
        """The job that has made it: id, party id of the initiator, seats. The id alone does not say which job that was,
        because models are also imported, into a home where the id is not bound."""
        seats = frozenset(Party(role, str(one)) for role, ids in self.roles.items() for one in ids)
        return self.job_id, self.initiator, seats


@dataclass(frozen=True)
class Deployment:
    """A selection of the tasks of a stored model, with what a prediction needs. Only its party knows it."""

    name: str                        # FATE's `model_version` of the deployed model
    model_id: str
    version: int
    document: Mapping[str, Any]      # dsl: with `pipeline.<task>.<output>`; component_parameters: of the training
    create_time: int = 0


@dataclass(frozen=True)
class ModelTag:
    name: str
    description: str = ""
    create_time: int = 0


@dataclass(frozen=True)
class Scope:
    """A selection of the tasks of a job: all, those at one party, or those of one component."""

    job_id: str
    party: Party | None = None
    task: str = ""

    def has(self, key: TaskKey) -> bool:
        return key.job_id == self.job_id and self.party in (None, key.party) and self.task in ("", key.name)
