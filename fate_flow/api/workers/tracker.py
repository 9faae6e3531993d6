"""`/v1/tracker/...` on the workers' listener (party-api-v1, section 5): a worker records its results here.

Paths and fields are FATE's. Values that FATE packs as a pickle are plain JSON here: a pickle from a worker could run
any code in the server. A worker may record only for its own party task, which its token identifies. Built-in components
do not use these routes, they leave a result file; the routes are for workers that record results while they run.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, request

from fate_flow.api.http.arguments import read_whole
from fate_flow.api.v1.envelope import failed, ok, require, silent_json
from fate_flow.api.workers.metric_space import MetricSpace
from fate_flow.components.artifacts.attempt import ArtifactError
from fate_flow.components.artifacts.table_files import TableFiles
from fate_flow.components.base.errors import ComponentError
from fate_flow.components.tables.table import NoSuchTable, Table
from fate_flow.core.metrics.form import PIECE_BYTES
from fate_flow.core.model.errors import BadRequest, NotFound, OperationFailed, PermissionDenied
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.relay.spool import Spool
from fate_flow.relay.spool_result import Refusal
from fate_flow.relay.spool_session import Session
from fate_flow.services.artifacts.tables import MADE
from fate_flow.store.contract.bindings import namespace_of
from fate_flow.store.contract.transaction import Store, Transaction
from fate_flow.store.contract.transaction_retry import Retry
from fate_flow.store.values import READ, Metric, OutputTable, TableMeta

Record = Callable[[Transaction, TaskKey, Mapping[str, Any]], Any]

MOST_OUTPUTS = 1_000
"""Tables that one task puts out at a party."""
MOST_BYTES_OF_ROW = 1024 * 1024
"""Of the schema of a table, and of the summary of a task, as JSON."""
_MODELS = "this server does not store models: leave the result of a task as an output table"


def blueprint(
    spool: Spool, store: Store, clock: Callable[[], int], data_dir: Path, metric_space: MetricSpace
) -> Blueprint:
    """The routes below `/v1/tracker/<job>/<component>/<task>/<version>/<role>/<party>/`."""
    records = _Records(clock, data_dir, metric_space)
    retry = Retry()
    tracker = Blueprint("tracker", __name__, url_prefix="/v1/tracker")

    @tracker.post("/<job_id>/<component>/<task_id>/<version>/<role>/<party_id>/<path:what>")
    def record(
        job_id: str, component: str, task_id: str, version: str, role: str, party_id: str, what: str
    ) -> Response:
        session = worker_of(spool, (job_id, task_id, version, role, party_id))
        if what.startswith(("model/", "component_model/")):
            return failed(100, _MODELS)
        handle = records.by_path.get(what)
        if handle is None:
            raise NotFound(f"no such path: workers cannot record {shown(what)}")
        key = TaskKey(session.job_id, component, session.version, Party(session.role, session.party_id))
        if key.task_id != session.task_id:
            raise PermissionDenied(f"the token is not that of {component}")
        body = silent_json()

        def once() -> Any:
            with store.transaction() as tx:
                return handle(tx, key, body)

        return ok(retry(once))

    return tracker


def worker_of(spool: Spool, named: tuple[str, str, str, str, str]) -> Session:
    """Return the session of the calling worker, if (job id, task id, version, role, party id) name it.

    Raise PermissionDenied."""
    session = session_of_worker(spool)
    own = (session.job_id, session.task_id, str(session.version), session.role, session.party_id)
    if named != own:
        raise PermissionDenied(f"the token is not that of task {named[1]} {named[2]} on {named[3]} {named[4]}")
    return session


def session_of_worker(spool: Spool) -> Session:
    """Return the session of the calling worker. Raise PermissionDenied."""
    token = request.headers.get("Authorization", "").removeprefix("Bearer ")
    session = spool.session_of(token)
    if session is None or isinstance(session, Refusal):
        raise PermissionDenied("Authorization: this is not the token of a running worker")
    return session


class _Records:
    def __init__(self, clock: Callable[[], int], data_dir: Path, metric_space: MetricSpace) -> None:
        self._clock = clock
        self._metric_space = metric_space
        self._tables = TableFiles(data_dir)
        self.by_path: Mapping[str, Record] = {
            "metric_data/save": self._metric_data,
            "metric_meta/save": self._metric_meta,
            "table_meta/create": self._table_create,
            "table_meta/get": self._table_get,
            "output_data_info/save": self._output_save,
            "output_data_info/read": self._output_read,
            "summary/save": self._summary,
        }

    def _metric_data(self, tx: Transaction, key: TaskKey, body: Mapping[str, Any]) -> None:
        require(body, "metric_namespace", "metric_name", "metrics")
        data = tuple(_pair(one) for one in _list(body, "metrics"))
        self._save_metric(tx, key, body, data, {})

    def _metric_meta(self, tx: Transaction, key: TaskKey, body: Mapping[str, Any]) -> None:
        require(body, "metric_namespace", "metric_name", "metric_meta")
        self._save_metric(tx, key, body, (), _object(body, "metric_meta"))

    def _save_metric(
        self, tx: Transaction, key: TaskKey, body: Mapping[str, Any], data: tuple[tuple[Any, Any], ...],
        meta: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Save a piece of a metric; earlier pieces are kept: data and meta come in separate calls, and in pieces."""
        namespace, name = _text(body, "metric_namespace"), _text(body, "metric_name")
        size = PIECE_BYTES + len(json.dumps([namespace, name, data, dict(meta)]))
        self._metric_space.take(tx, key.job_id, size)
        tx.save_metrics([Metric(key, namespace, name, data, meta)], self._clock())

    def _table_create(self, tx: Transaction, key: TaskKey, body: Mapping[str, Any]) -> None:
        require(body, "name", "namespace", "address")
        if _text(body, "namespace") != (own := namespace_of(key.job_id)):
            raise BadRequest(f"namespace: {shown(body['namespace'])} is not {own}, where tables of this job lie")
        known = tx.table(own, _text(body, "name"))
        if known is not None and known.job_id != key.job_id:
            raise BadRequest(f"name: table {known.namespace}.{known.name} belongs to another job")
        table = TableMeta(
            _text(body, "namespace"), _text(body, "name"), self._uri(key, body), read_whole(body, "count", 0),
            _small(body, "schema"), origin=MADE, job_id=key.job_id,
            is_disabled=known is not None and known.is_disabled,
        )  # fmt: skip
        tx.save_table(table, self._clock())

    def _uri(self, key: TaskKey, body: Mapping[str, Any]) -> str:
        """Return the URI of the table, which must be in this party's folder, of the given name, and written by this
        task: nobody takes the name of a table that is still to come. Raise BadRequest."""
        uri = _object(body, "address").get("uri")
        try:
            self._tables.check(str(uri), body["namespace"], body["name"])
            made_by = _made_by(str(uri))
        except ArtifactError as error:
            raise BadRequest(f"address.{error}") from error
        except ComponentError as error:
            raise BadRequest(f"address.uri: {shown(uri)}: {error.message}") from error
        except (sqlite3.Error, LookupError, ValueError) as error:
            raise BadRequest(f"address.uri: {shown(uri)}: the file there is not a table") from error
        if made_by != key.task_id:
            whose = f"{shown(made_by)} has written it" if made_by else "it is not written yet, or was uploaded"
            raise BadRequest(f"address.uri: {shown(uri)} is not a table that {key.task_id} has written: {whose}")
        return str(uri)

    def _table_get(self, tx: Transaction, key: TaskKey, body: Mapping[str, Any]) -> dict[str, Any]:
        require(body, "table_name", "namespace")
        table = _made_table(tx, key, _text(body, "namespace"), _text(body, "table_name"))
        return {
            "name": table.name, "namespace": table.namespace, "address": {"uri": table.uri}, "engine": "STANDALONE",
            "partitions": table.partitions, "count": table.count, "schema": dict(table.schema),
            "origin": table.origin, "disable": table.is_disabled,
        }  # fmt: skip

    def _output_save(self, tx: Transaction, key: TaskKey, body: Mapping[str, Any]) -> None:
        """Save that the task has put out a table of its job. Any other one has to be granted, and who only names it
        here would hand it to the next task without that."""
        require(body, "data_name", "table_namespace", "table_name")
        data_name = _text(body, "data_name")
        if data_name == READ:
            raise BadRequest(f"data_name: {READ} is no name of an output")
        table = _made_table(tx, key, _text(body, "table_namespace"), _text(body, "table_name"))
        known = tx.outputs(key.job_id, key.name, key.party)
        if len(known) >= MOST_OUTPUTS and all(one.data_name != data_name for one in known):
            raise OperationFailed(f"data_name: {key.name} has put out {MOST_OUTPUTS} tables, which are the most")
        tx.save_outputs([OutputTable(key, data_name, table.namespace, table.name, table.job_id)], self._clock())

    def _output_read(self, tx: Transaction, key: TaskKey, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        wanted = body.get("data_name")
        return [
            {
                "job_id": key.job_id, "component_name": key.name, "task_id": key.task_id,
                "task_version": one.task.version, "data_name": one.data_name, "role": key.party.role,
                "party_id": key.party.party_id, "table_name": one.name, "table_namespace": one.namespace,
            }
            for one in tx.outputs(key.job_id, key.name, key.party)
            if not wanted or one.data_name == wanted
        ]  # fmt: skip

    def _summary(self, tx: Transaction, key: TaskKey, body: Mapping[str, Any]) -> None:
        require(body, "summary")
        tx.save_summary(key, _small(body, "summary"), self._clock())


def _made_table(tx: Transaction, key: TaskKey, namespace: str, name: str) -> TableMeta:
    """Return a table that a task of this job has made. Raise NotFound for any other, also one that is there: what a
    worker may read it was given."""
    table = tx.table(namespace, name)
    if table is None or (table.origin, table.job_id) != (MADE, key.job_id):
        raise NotFound(f"table_name: job {key.job_id} has made no table {namespace}.{name}")
    return table


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body[key]
    if not isinstance(value, str) or not 0 < len(value) <= 180:
        raise BadRequest(f"{key}: {value!r} is not a name of up to 180 characters")
    return value


def _made_by(uri: str) -> str:
    """Return the task that wrote the table; "" if it is not written yet."""
    try:
        with Table(uri) as table:
            return table.made_by
    except NoSuchTable:
        return ""


def _object(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = body.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest(f"{key}: must be a JSON object (pickles are not accepted)")
    return value


def _small(body: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return an object that is stored in one row. Raise BadRequest if it is too large for that."""
    found = _object(body, key)
    if (size := len(json.dumps(found))) > MOST_BYTES_OF_ROW:
        raise BadRequest(f"{key}: takes {size} bytes as JSON, and {MOST_BYTES_OF_ROW} are the most")
    return found


def _list(body: Mapping[str, Any], key: str) -> list[Any]:
    value = body[key]
    if not isinstance(value, list):
        raise BadRequest(f"{key}: must be a list of [key, value] (pickles are not accepted)")
    return value


def _pair(one: Any) -> tuple[Any, Any]:
    if isinstance(one, dict) and {"key", "value"} <= one.keys():
        return one["key"], one["value"]
    if isinstance(one, list) and len(one) == 2:
        return one[0], one[1]
    raise BadRequest("metrics: each must be [key, value], or an object with both (pickles are not accepted)")
