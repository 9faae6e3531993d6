"""What a store keeps beside the values of the core: documents, tables, what tasks put out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party


@dataclass(frozen=True)
class Document:
    """A job as it was submitted, in JSON values."""

    dsl: Mapping[str, Any]
    runtime_conf: Mapping[str, Any]
    on_party: Mapping[str, Any]
    name: str = ""
    description: str = ""
    tag: str = ""
    federated_mode: str = "MULTIPLE"
    collect_type: str = "PUSH"


@dataclass(frozen=True)
class Submission:
    request_id: str
    job_id: str
    digest: str
    retcode: int | None = None       # None: not decided yet
    retmsg: str = ""


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
    extend_sid: bool = False          # its ids were made up
    replaced: int = 0                 # rows that are not in it, since a later one had the same id


@dataclass(frozen=True)
class Connector:
    """A place outside of the tables, by a name that clients use for it."""

    name: str
    engine: str
    info: Mapping[str, Any]


READ = "(read)"
"""The data name, which no document can give, of a table that a task found by its parameters and did not hand on."""


@dataclass(frozen=True)
class OutputTable:
    """A table that a party task made; with the data name READ, one that it read."""

    task: TaskKey
    data_name: str
    namespace: str
    name: str
    written_by: str = ""        # the job whose words the table was then; empty where that is not known


@dataclass(frozen=True)
class Metric:
    task: TaskKey
    namespace: str
    name: str
    data: tuple[tuple[Any, Any], ...]
    meta: Mapping[str, Any]


@dataclass(frozen=True)
class Scope:
    """Tasks of a job: all, those at one of its parties, those of one component."""

    job_id: str
    party: Party | None = None
    task: str = ""

    def has(self, key: TaskKey) -> bool:
        return key.job_id == self.job_id and self.party in (None, key.party) and self.task in ("", key.name)
