"""The input and the output of a component: its task configuration and its result, as values.

The file formats are those of docs/reference/contracts.md, "Task configuration" and `result.json`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fate_flow.components.base.errors import BadConfig, ComponentError, shown
from fate_flow.components.base.exchange import Channel, open_http_channel
from fate_flow.components.providers.description import own_parameters
from fate_flow.components.tables.table import NoSuchTable, Table, table_exists
from fate_flow.components.tables.table_uri import format_uri
from fate_flow.core.model.artifact import FILE_SCHEME
from fate_flow.core.model.spec import Party

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Metric:
    namespace: str
    name: str
    data: Sequence[tuple[str, int | float | str]]
    meta: Mapping[str, object] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        pairs = [list(pair) for pair in self.data]
        return {"namespace": self.namespace, "name": self.name, "data": pairs, "meta": dict(self.meta)}


@dataclass(frozen=True)
class Outcome:
    """The result of a component; `tables` are uris by output key, `files` what is said of each planned file."""

    tables: Mapping[str, str] = field(default_factory=dict)
    metrics: Sequence[Metric] = ()
    summary: Mapping[str, object] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


def _no_channel() -> Channel:
    raise BadConfig("conf.federation.metadata.exchange is missing: this task cannot talk to other parties")


@dataclass(frozen=True)
class TaskContext:
    """One party's share of a task, for its worker."""

    task_id: str
    version: str
    name: str
    component: str
    me: Party
    parties: tuple[Party, ...] = ()                # all parties of the task, with this one
    parameters: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    data_dir: Path = Path("data")
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)    # a database server that the task uses
    cores: int = 1
    least_intersection: int = 0                   # ids or rows below which nothing computed of them may leave; 0: any
    open_channel: Callable[[], Channel] = _no_channel

    def __str__(self) -> str:
        return f"{self.name} {self.task_id} {self.version} on {self.me}"

    @property
    def others(self) -> tuple[Party, ...]:
        return tuple(party for party in self.parties if party != self.me)

    def parties_of(self, role: str) -> tuple[Party, ...]:
        return tuple(party for party in self.parties if party.role == role)

    def input_table(self, key: str = "data") -> Table:
        """Return the one table at this input, open.

        Raises NoSuchTable. Other parties read its message, so the name of the table goes to this party's log alone.
        """
        uris = self.inputs.get(key, ())
        if len(uris) != 1:
            raise ComponentError(f"input {key} has {len(uris)} tables, {self.component} takes one")
        try:
            return Table(uris[0])
        except NoSuchTable as error:
            log.error("input %s: %s", key, error.message)
            raise NoSuchTable(f"input {key}: the table is no longer here; that party's log names it") from error

    def table_uri(self, namespace: str, name: str) -> str:
        return format_uri(self.data_dir, namespace, name)

    def has_made(self, uri: str) -> bool:
        """Return whether an earlier attempt of this very task made the table; then the task may write it again."""
        if not table_exists(uri):
            return False
        with Table(uri) as table:
            return table.made_by == self.task_id

    @property
    def metric_path(self) -> Path | None:
        """The file for the metrics; None if the job has no metric output."""
        uri = self.outputs.get("metric")
        return Path(uri.removeprefix(FILE_SCHEME)) if uri else None


def read_task(config: object) -> TaskContext:
    """Return the task that a parsed config.yaml describes. Raises BadConfig, naming the wrong key."""
    document = _Section(config, "")
    conf = document.section("conf")
    options = conf.section("computing").section("metadata").section("options")
    federation = conf.section("federation").section("metadata")
    task_id = document.text("task_id")
    return TaskContext(
        task_id=task_id,
        version=_version(task_id, document.text("party_task_id")),
        name=document.text("task_name"),
        component=document.text("component"),
        me=Party(document.text("role"), document.text("party_id")),
        parties=_parties(federation),
        parameters=own_parameters(document.mapping("parameters")),
        inputs={key: _uris(key, value) for key, value in document.mapping("input_artifacts").items()},
        outputs={key: _uris(key, value)[0] for key, value in document.mapping("output_artifacts").items()},
        storage=conf.mapping("storage"),
        data_dir=Path(options.text("data_dir")),
        cores=int(options.value("task_cores") or 1),
        least_intersection=int(options.value("least_intersection") or 0),
        open_channel=_channel_maker(federation),
    )


class _Section:
    """A mapping of the configuration with its own path; a missing one is empty."""

    def __init__(self, values: object, path: str) -> None:
        if not isinstance(values, Mapping):
            raise BadConfig(f"{path or 'the file'}: {shown(values)} is not a mapping of keys")
        self._values = values
        self._path = path

    def _name(self, key: str) -> str:
        return f"{self._path}.{key}" if self._path else key

    def value(self, key: str) -> Any:
        return self._values.get(key)

    def mapping(self, key: str) -> Mapping[str, Any]:
        return _Section(self._values.get(key) or {}, self._name(key))._values

    def section(self, key: str) -> _Section:
        return _Section(self._values.get(key) or {}, self._name(key))

    def text(self, key: str) -> str:
        value = self._values.get(key)
        if isinstance(value, bool) or not isinstance(value, (str, int)) or value == "":
            raise BadConfig(f"{self._name(key)}: {shown(value)} is not text")
        return str(value)


def _version(task_id: str, party_task_id: str) -> str:
    """Return the version in `<task_id>_<version>_<role>_<party>_<incarnation>`; "0" for names of another form."""
    rest = party_task_id.removeprefix(f"{task_id}_")
    version = rest.split("_", 1)[0]
    return version if rest != party_task_id and version.isdigit() else "0"


def _parties(federation: _Section) -> tuple[Party, ...]:
    listed = federation.section("parties").value("parties") or []
    return tuple(Party(str(one["role"]), str(one["partyid"])) for one in listed)


def _uris(key: str, artifact: object) -> tuple[str, ...]:
    several = artifact if isinstance(artifact, list) and artifact else [artifact]
    return tuple(_Section(one, key).text("uri") for one in several)


def _channel_maker(federation: _Section) -> Callable[[], Channel]:
    exchange = federation.section("exchange")
    if not exchange.value("url"):
        return _no_channel
    return lambda: open_http_channel(
        exchange.text("url"), exchange.text("token"), str(exchange.value("servers") or "")
    )
