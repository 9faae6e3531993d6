"""The catalogue of components: their names, roles and parameters.

The server imports this module to check a submit, but never the components themselves; so it imports little.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from fate_flow.components.base.errors import shown
from fate_flow.components.worker import intersection_parameters as intersection
from fate_flow.core.model import program
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import (
    DUPLICATE_IDS,
    TABLE_PIECE,
    check_component_name,
    check_job_id,
    check_output_name,
    check_table_piece,
    shown_key,
)
from fate_flow.core.model.spec import Party
from fate_flow.jobspec.text.document import nearest

PASS_THROUGH = frozenset({"need_run", "need_deploy", "provider", "CodePath"})
"""Keys among the parameters of a component that are for the coordinator."""

_MOST_HINTS = 100
MAX_DATA_NUM = 1_000_000
MAX_PRECISION = 18
_NAMES, _OUTPUT = ("namespace", "name"), ("job_id", "component_name", "data_name")
MYSQL_TABLE = "the name of a table: 1 to 64 letters, digits and _"
MYSQL_NAME = "[A-Za-z0-9_]{1,64}"
UPLOADED, WRITTEN, BOUND = "upload", "writer", "table_bind"
"""Origins of tables that outlive the results of a job."""


@dataclass(frozen=True)
class Parameter:
    """One parameter: whether it is required, which values are right, and text that describes them."""

    expected: str
    is_right: Callable[[object], bool]
    required: bool = False
    keys: tuple[str, ...] = ()          # for an object: the keys that are read


@dataclass(frozen=True)
class ComponentInfo:
    module: str                                    # the name in a DSL: "Intersection"
    name: str                                      # the name in a task configuration
    description: str
    roles: frozenset[str]
    parameter_group: str                           # the key of the parameters in `flow component parameters`
    parameters: Mapping[str, Parameter]
    inputs: tuple[str, ...] = ()                   # keys of the tables that it reads
    outputs: tuple[str, ...] = ()                  # keys of tables that it writes; every component writes metrics, too
    default_task_cores: int | None = None          # None: as the job says
    examine: Callable[[Mapping[str, object]], list[str]] | None = None    # check of several values together
    examine_all: Callable[[Mapping[Party, Mapping[str, object]]], list[str]] | None = None    # check of all parties
    is_without_table: Callable[[Mapping[str, object], str], bool] | None = None    # whether a role gets no output table
    made_at: tuple[str, str] | None = None                   # parameters with the name of the table that it makes
    origin: str = ""                               # of its tables, if they outlive the results of the job
    reads_by_name: bool = False                    # its parameters namespace and name name the table that it reads
    file_read: str = ""                            # the parameter with the path of the file that it reads
    file_written: str = ""                         # the parameter with the path of the file that it writes
    uses_connector: bool = False                   # its parameter connector names a server of the configuration
    column_parameters: tuple[str, ...] = ()                  # parameters with a column of the table that it reads
    hands_on: Callable[[Mapping[str, object], tuple[str, ...]], tuple[str, ...]] | None = None    # output columns
    is_program: bool = False                       # it runs the user's program, not a Python module of ours
    exchanges_messages: bool = False               # its workers at several parties exchange messages
    tolerates_missing_roles: frozenset[str] = frozenset()    # roles whose shares may break while the others run
    starts_without_roles: frozenset[str] = frozenset()       # roles whose parties may be missing from the start

    def check(self, parameters: Mapping[str, object], role: str) -> list[str]:
        """Return what is wrong with the parameters of a party; each text names key, value and what is right."""
        if role not in self.roles:
            return [f"{self.module} does not run at role {shown(role)}, only at {', '.join(sorted(self.roles))}"]
        missing = [
            f"{key} is missing; {one.expected} is needed"
            for key, one in self.parameters.items()
            if one.required and parameters.get(key) is None
        ]
        found = missing + [
            f"{key}: {shown(value)} is not {self.parameters[key].expected}"
            for key, value in parameters.items()
            if key in self.parameters and value is not None and not self.parameters[key].is_right(value)
        ]
        if self.is_program:
            found += [f"{key}: is not known{self._hint(key)}" for key in self._unknown(parameters)[:_MOST_HINTS]]
        return found if found or self.examine is None else self.examine(parameters)

    def check_all(self, parameters: Mapping[Party, Mapping[str, object]]) -> list[str]:
        """Return what is wrong with the parameters of all parties together, given that each party's are right."""
        return [] if self.examine_all is None else self.examine_all(parameters)

    def makes_table(self, parameters: Mapping[str, object], role: str) -> bool:
        """Return whether the task makes an output table at a party of this role."""
        if self.is_without_table is not None and self.is_without_table(parameters, role):
            return False
        return bool(self.outputs) or self.is_program

    @property
    def python_module(self) -> str:
        """The module that runs in a worker."""
        return f"fate_flow.components.builtin.{self.name}"

    @property
    def needed_inputs(self) -> tuple[str, ...]:
        """The keys of the inputs that it cannot run without."""
        return () if self.is_program else self.inputs

    def table_made(self, parameters: Mapping[str, object]) -> tuple[str, str] | None:
        """Return namespace and name of the table that it makes by its parameters; None if they name none."""
        namespace, name = (parameters.get(key) for key in self.made_at or ("", ""))
        return (str(namespace), str(name)) if namespace and name else None

    def table_origin(self, parameters: Mapping[str, object]) -> str:
        """Return the origin of its tables; empty if they are results of the job.

        With the parameter `is_bound`, a table counts as bound to its file instead of uploaded."""
        return BOUND if self.origin and parameters.get("is_bound") else self.origin

    def columns_read(self, parameters: Mapping[str, object]) -> dict[str, str]:
        """Return the columns that parameters name, by the key of the parameter."""
        return {key: str(parameters[key]) for key in self.column_parameters if parameters.get(key)}

    def columns_made(self, parameters: Mapping[str, object], given: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the columns of its output, for an input with the columns `given`; None if they are unknown."""
        return self.hands_on(parameters, given) if self.hands_on is not None else None

    def warnings(self, parameters: Mapping[str, object]) -> list[str]:
        """Return a text for each parameter without effect. Genuine clients send more parameters than we know.

        A `Command` task exists only here, so its unknown parameters are errors, not warnings."""
        return [
            f"{key}: {self.module} has no such parameter, it has no effect"
            for key in (() if self.is_program else [*self._unknown(parameters), *self._unknown_inside(parameters)])
        ]

    def _unknown(self, parameters: Mapping[str, object]) -> list[str]:
        return [key for key in own_parameters(parameters) if key not in self.parameters]

    def _unknown_inside(self, parameters: Mapping[str, object]) -> Iterator[str]:
        for name, parameter in self.parameters.items():
            value = parameters.get(name)
            if parameter.keys and isinstance(value, Mapping):
                yield from (f"{name}.{shown_key(key)}" for key in value if key not in parameter.keys)

    def _hint(self, key: str) -> str:
        return nearest(key, self.parameters) or f"; known here: {', '.join(self.parameters)}"


def own_parameters(parameters: Mapping[str, object]) -> dict[str, object]:
    """Return the parameters without those for the coordinator."""
    return {key: value for key, value in parameters.items() if key not in PASS_THROUGH}


def find_component(name: str) -> ComponentInfo | None:
    """Return the component with this name, written `SecureSum`, `secure_sum` or `securesum`; None if there is none."""
    return _BY_PLAIN_NAME.get(_without_case(name))


def _without_case(name: str) -> str:
    return name.replace("_", "").lower()


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
_ID_COLUMN = _text("the name of a column")
_FEATURE_COLUMN = _text("names of columns, between commas")
_PRECISION = Parameter(f"a whole number of decimals from 0 to {MAX_PRECISION}", _is_whole(0, MAX_PRECISION))

def _command_parameters() -> Iterator[tuple[str, Parameter]]:
    """Yield the parameters of a `Command`; `program.problems` checks their values together."""
    for key, expected in program.PARAMETERS.items():
        yield key, Parameter(expected, lambda _: True, required=key == "command")


def _problems_of_upload(parameters: Mapping[str, object]) -> list[str]:
    if parameters.get("id_column") and parameters.get("extend_sid"):
        return [f"id_column: {shown(parameters['id_column'])} excludes extend_sid, which generates the ids"]
    return []


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
_EVERYWHERE = frozenset({"guest", "host", "arbiter", "local"})

UPLOAD = ComponentInfo(
    module="Upload",
    name="upload",
    description="makes a table from a CSV file on this party's server",
    roles=_LOCAL,
    parameter_group="UploadParam",
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
        "is_bound": _FLAG,
    },
    made_at=_NAMES,
    origin=UPLOADED,
    file_read="file",
    outputs=("data",),
    default_task_cores=4,
    examine=_problems_of_upload,
)
DOWNLOAD = ComponentInfo(
    module="Download",
    name="download",
    description="writes a table to a CSV file on this party's server",
    roles=_LOCAL,
    parameter_group="DownloadParam",
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
    module="Writer",
    name="writer",
    description="copies a table to another table, a CSV file on this party's server, or a table of a MySQL server",
    roles=_LOCAL,
    parameter_group="WriterParam",
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
    outputs=("data",),
    default_task_cores=1,
    examine=_problems_of_writer,
)
FETCH = ComponentInfo(
    module="Fetch",
    name="fetch",
    description="makes a table from a table of a MySQL server",
    roles=_LOCAL,
    parameter_group="FetchParam",
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
    outputs=("data",),
    default_task_cores=1,
)
READER = ComponentInfo(
    module="Reader",
    name="reader",
    description="hands a table of this party to the tasks that follow",
    roles=_GUEST_AND_HOST,
    parameter_group="ReaderParam",
    parameters={"table": _TABLE},
    outputs=("data",),
    hands_on=lambda _, columns: columns,
    tolerates_missing_roles=_GUEST_AND_HOST,     # no share waits for another: each reads its own table
)
INTERSECTION = ComponentInfo(
    module="Intersection",
    name="intersection",
    description="keeps the rows whose ids all parties hold, and discloses no other ids",
    roles=_GUEST_AND_HOST,
    parameter_group="IntersectParam",
    parameters={
        "cardinality_only": _FLAG,
        "sync_cardinality": _FLAG,
        "sync_intersect_ids": _FLAG,
        "only_output_key": _FLAG,
        **{key: Parameter(one.expected, one.is_right) for key, one in intersection.FIXED.items()},
    },
    inputs=("data",),
    outputs=("data",),
    examine_all=intersection.problems,
    hands_on=lambda parameters, columns: () if parameters.get("only_output_key") else columns,
    is_without_table=intersection.is_without_table,
    exchanges_messages=True,
)
SECURE_SUM = ComponentInfo(
    module="SecureSum",
    name="secure_sum",
    description="adds up a column over all parties; each learns only the total",
    roles=_GUEST_AND_HOST,
    parameter_group="SecureSumParam",
    parameters={"column": _text("the name of a column", required=True), "precision": _PRECISION},
    inputs=("data",),
    column_parameters=("column",),
    outputs=("data",),
    exchanges_messages=True,
    starts_without_roles=_GUEST_AND_HOST,        # the total of the present parties; once started, all are needed
)
SECURE_ADD_EXAMPLE = ComponentInfo(
    module="SecureAddExample",
    name="secure_add_example",
    description="a guest and a host add up ones without disclosing them; `flow test toy` runs it",
    roles=_GUEST_AND_HOST,
    parameter_group="SecureAddExampleParam",
    parameters={
        "data_num": Parameter(f"a whole number from 1 to {MAX_DATA_NUM}", _is_whole(1, MAX_DATA_NUM)),
        "partition": _PARTITION,
        "seed": Parameter("a whole number", _is_whole(-(2**63), 2**63)),
    },
    exchanges_messages=True,
)
COMMAND = ComponentInfo(
    module="Command",
    name="command",
    description="runs a program of the user's own at each party that allows it",
    roles=_EVERYWHERE,
    parameter_group="CommandParam",
    parameters=dict(_command_parameters()),
    inputs=("data",),
    examine=program.problems,
    is_program=True,
    tolerates_missing_roles=_EVERYWHERE,     # the author of the program knows whether the others can go on
    starts_without_roles=_EVERYWHERE,
)

_COMPONENTS = (UPLOAD, DOWNLOAD, WRITER, FETCH, READER, INTERSECTION, SECURE_SUM, SECURE_ADD_EXAMPLE, COMMAND)

CATALOGUE: Mapping[str, ComponentInfo] = MappingProxyType({one.module: one for one in _COMPONENTS})

_BY_PLAIN_NAME = {_without_case(one.module): one for one in _COMPONENTS}
