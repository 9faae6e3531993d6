"""The provider `builtin`: components of this package, each a module of `builtin/` that a fork of the spawner runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fate_flow.components.base.errors import shown
from fate_flow.components.providers import intersection_parameters as intersection
from fate_flow.components.providers.description import BOUND, ONE_TABLE, ComponentInfo, Parameter
from fate_flow.components.providers.provider import Launch, OwnProvider, Start, component_run
from fate_flow.components.tables import frame_meta
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import (
    DUPLICATE_IDS,
    TABLE_PIECE,
    check_component_name,
    check_job_id,
    check_output_name,
    check_table_piece,
)

MAX_DATA_NUM = 1_000_000
MAX_PRECISION = 18
_NAMES, _OUTPUT = ("namespace", "name"), ("job_id", "component_name", "data_name")
MYSQL_TABLE = "the name of a table: 1 to 64 letters, digits and _"
MYSQL_NAME = "[A-Za-z0-9_]{1,64}"
UPLOADED, WRITTEN = "upload", "writer"
"""Origins of tables that outlive the results of a job."""


@dataclass(frozen=True)
class BuiltinProvider(OwnProvider):
    """Each share has one worker, which runs the module of its component."""

    name: str = "builtin"
    has_replicas: bool = False

    @property
    def components(self) -> tuple[ComponentInfo, ...]:
        return _COMPONENTS

    def program(self, parameters: Mapping[str, Any]) -> None:  # noqa: ARG002  # they name no program
        return None

    def start(self, component: ComponentInfo, launch: Launch) -> Start:
        return component_run(launch, component.outputs_at(launch.role, launch.stage), self.python_module(component))

    def leaves_result(self, folder: Path) -> bool:  # noqa: ARG002  # every one does
        return True


BUILTIN_PROVIDER = BuiltinProvider()


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_whole(minimum: int, maximum: int) -> Callable[[object], bool]:
    def is_right(value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and minimum <= value <= maximum
    return is_right


def _is_flag(value: object) -> bool:
    """Return whether the value is a flag; clients write true/false or 0/1."""
    return isinstance(value, (bool, int)) and value in (0, 1)


def _is_delimiter(value: object) -> bool:
    return isinstance(value, str) and len(value) == 1 and value not in '"\r\n\0'


def _is_table_piece(value: object) -> bool:
    try:
        return bool(check_table_piece(value, ""))
    except BadRequest:
        return False


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) and (
        all(_is_table_piece(value.get(key)) for key in _NAMES) or _is_output(value)
    )


def _is_output(value: Mapping[str, object]) -> bool:
    """Return whether the value names an output of another job, as FATE's Reader takes it."""
    try:
        check_job_id(value.get("job_id"))
        check_component_name(value.get("component_name"))
        check_output_name(value.get("data_name"), "")
    except BadRequest:
        return False
    return not any(key in value for key in _NAMES)


def _is_mysql_table(value: object) -> bool:
    return isinstance(value, str) and bool(re.fullmatch(MYSQL_NAME, value))


def _text(expected: str, *, required: bool = False) -> Parameter:
    return Parameter(expected, _is_text, required)


_FLAG = Parameter("true, false, 1 or 0", _is_flag)
_DELIMITER = Parameter("one character, such as ','", _is_delimiter)
_PARTITION = Parameter("a whole number from 1 to 10000", _is_whole(1, 10_000))
_TABLE_PIECE = Parameter(TABLE_PIECE, _is_table_piece, required=True)
_TABLE = Parameter(
    '{"namespace": text, "name": text} or, of another job, {"job_id", "component_name", "data_name"}', _is_table,
    required=True, keys=(*_NAMES, *_OUTPUT),
)
_DUPLICATE_IDS = Parameter(f"one of {', '.join(DUPLICATE_IDS)}", lambda value: value in DUPLICATE_IDS)
_META = Parameter(
    f"an object with {', '.join(frame_meta.KEYS)}: what the columns are in a data frame of FATE",
    lambda value: isinstance(value, Mapping),
)
_ID_COLUMN = _text("the name of a column")
_FEATURE_COLUMN = _text("names of columns, between commas")
_PRECISION = Parameter(f"a whole number of decimals from 0 to {MAX_PRECISION}", _is_whole(0, MAX_PRECISION))


def _problems_of_upload(parameters: Mapping[str, object]) -> list[str]:
    if parameters.get("id_column") and parameters.get("extend_sid"):
        return [f"id_column: {shown(parameters['id_column'])} excludes extend_sid, which generates the ids"]
    meta = parameters.get("meta")
    return [f"meta.{problem}" for problem in frame_meta.problems_of(meta)] if isinstance(meta, Mapping) else []


def _problems_of_writer(parameters: Mapping[str, object]) -> list[str]:
    table = [parameters.get(key) for key in ("output_namespace", "output_name")]
    if any(table) != all(table):
        return ["output_namespace and output_name: one of them is missing; both name the table to write"]
    server = [parameters.get(key) for key in ("connector", "target")]
    if any(server) != all(server):
        return ["connector and target: one of them is missing; both name the table of another server to write"]
    if not any((*table, *server)) and not parameters.get("output_path"):
        return ["output_path is missing, and so are output_namespace and output_name; a file or a table is needed"]
    return []


_LOCAL = frozenset({"local"})
_GUEST_AND_HOST = frozenset({"guest", "host"})

UPLOAD = ComponentInfo(
    provider=BUILTIN_PROVIDER,
    module="Upload",
    name="upload",
    description="makes a table from a CSV file on this party's server",
    roles=_LOCAL,
    parameter_group="UploadParam",
    takes_other_keys=True,
    parameters={
        "file": _text("the path of a CSV file", required=True),
        "namespace": _TABLE_PIECE,
        "name": _TABLE_PIECE,
        "head": _FLAG,
        "id_delimiter": _DELIMITER,
        "partition": _PARTITION,
        "destroy": _FLAG,
        "extend_sid": _FLAG,
        "auto_increasing_sid": _FLAG,
        "id_column": _ID_COLUMN,
        "feature_column": _FEATURE_COLUMN,
        "duplicate_ids": _DUPLICATE_IDS,
        "remove_source": _FLAG,
        "meta": _META,
        "is_bound": _FLAG,
    },
    made_at=_NAMES,
    origin=UPLOADED,
    file_read="file",
    outputs=ONE_TABLE,
    default_task_cores=4,
    examine=_problems_of_upload,
)
DOWNLOAD = ComponentInfo(
    provider=BUILTIN_PROVIDER,
    module="Download",
    name="download",
    description="writes a table to a CSV file on this party's server",
    roles=_LOCAL,
    parameter_group="DownloadParam",
    takes_other_keys=True,
    parameters={
        "namespace": _TABLE_PIECE,
        "name": _TABLE_PIECE,
        "output_path": _text("the path of the CSV file to write", required=True),
        "delimiter": _DELIMITER,
    },
    default_task_cores=1,
    reads_by_name=True,
    file_written="output_path",
)
WRITER = ComponentInfo(
    provider=BUILTIN_PROVIDER,
    module="Writer",
    name="writer",
    description="copies a table to another table, a CSV file on this party's server, or a table of a MySQL server",
    roles=_LOCAL,
    parameter_group="WriterParam",
    takes_other_keys=True,
    parameters={
        "namespace": _TABLE_PIECE,
        "name": _TABLE_PIECE,
        "output_path": _text("the path of the CSV file to write"),
        "delimiter": _DELIMITER,
        "connector": _text("the name of a connector of this party's configuration"),
        "target": Parameter(MYSQL_TABLE, _is_mysql_table),
        "output_namespace": replace(_TABLE_PIECE, required=False),
        "output_name": replace(_TABLE_PIECE, required=False),
        "destroy": _FLAG,
    },
    made_at=("output_namespace", "output_name"),
    origin=WRITTEN,
    reads_by_name=True,
    file_written="output_path",
    uses_connector=True,
    outputs=ONE_TABLE,
    default_task_cores=1,
    examine=_problems_of_writer,
)
FETCH = ComponentInfo(
    provider=BUILTIN_PROVIDER,
    module="Fetch",
    name="fetch",
    description="makes a table from a table of a MySQL server",
    roles=_LOCAL,
    parameter_group="FetchParam",
    takes_other_keys=True,
    parameters={
        "connector": _text("the name of a connector of this party's configuration", required=True),
        "source": Parameter(MYSQL_TABLE, _is_mysql_table, required=True),
        "namespace": _TABLE_PIECE,
        "name": _TABLE_PIECE,
        "id_column": _ID_COLUMN,
        "feature_column": _FEATURE_COLUMN,
        "duplicate_ids": _DUPLICATE_IDS,
        "partition": _PARTITION,
        "destroy": _FLAG,
    },
    made_at=_NAMES,
    origin=BOUND,
    uses_connector=True,
    outputs=ONE_TABLE,
    default_task_cores=1,
)
READER = ComponentInfo(
    provider=BUILTIN_PROVIDER,
    module="Reader",
    name="reader",
    description="hands a table of this party to the tasks that follow",
    roles=_GUEST_AND_HOST,
    parameter_group="ReaderParam",
    takes_other_keys=True,
    parameters={"table": _TABLE},
    outputs=ONE_TABLE,
    hands_on=lambda _, columns: columns,
    tolerates_missing_roles=_GUEST_AND_HOST,     # no share waits for another: each reads its own table
)
INTERSECTION = ComponentInfo(
    provider=BUILTIN_PROVIDER,
    module="Intersection",
    name="intersection",
    description="keeps the rows whose ids all parties hold, and discloses no other ids",
    roles=_GUEST_AND_HOST,
    parameter_group="IntersectParam",
    takes_other_keys=True,
    parameters={
        "cardinality_only": _FLAG,
        "sync_cardinality": _FLAG,
        "sync_intersect_ids": _FLAG,
        "only_output_key": _FLAG,
        **{key: Parameter(one.expected, one.is_right) for key, one in intersection.FIXED.items()},
    },
    inputs=ONE_TABLE,
    outputs=ONE_TABLE,
    examine_all=intersection.problems,
    hands_on=lambda parameters, columns: () if parameters.get("only_output_key") else columns,
    is_without_table=intersection.is_without_table,
    exchanges_messages=True,
)
SECURE_SUM = ComponentInfo(
    provider=BUILTIN_PROVIDER,
    module="SecureSum",
    name="secure_sum",
    description="adds up a column over all parties; each learns only the total",
    roles=_GUEST_AND_HOST,
    parameter_group="SecureSumParam",
    takes_other_keys=True,
    parameters={"column": _text("the name of a column", required=True), "precision": _PRECISION},
    inputs=ONE_TABLE,
    column_parameters=("column",),
    outputs=ONE_TABLE,
    exchanges_messages=True,
    starts_without_roles=_GUEST_AND_HOST,        # the total of the present parties; once started, all are needed
)
SECURE_ADD_EXAMPLE = ComponentInfo(
    provider=BUILTIN_PROVIDER,
    module="SecureAddExample",
    name="secure_add_example",
    description="a guest and a host add up ones without disclosing them; `flow test toy` runs it",
    roles=_GUEST_AND_HOST,
    parameter_group="SecureAddExampleParam",
    takes_other_keys=True,
    parameters={
        "data_num": Parameter(f"a whole number from 1 to {MAX_DATA_NUM}", _is_whole(1, MAX_DATA_NUM)),
        "partition": _PARTITION,
        "seed": Parameter("a whole number", _is_whole(-(2**63), 2**63)),
    },
    exchanges_messages=True,
)

_COMPONENTS = (UPLOAD, DOWNLOAD, WRITER, FETCH, READER, INTERSECTION, SECURE_SUM, SECURE_ADD_EXAMPLE)
