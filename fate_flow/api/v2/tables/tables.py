"""`/v2/table/...`: show, delete and bind tables (client-api-v2, section 5)."""

from __future__ import annotations

from flask import Blueprint, Response

from fate_flow.api.http.arguments import read_table_piece
from fate_flow.api.http.caller import caller
from fate_flow.api.http.declared import FREE, TEXT, YES_NO, Arguments, declared
from fate_flow.api.http.paths import readable_file
from fate_flow.api.http.services import Services
from fate_flow.api.v1.jobs.board_data import first_rows
from fate_flow.api.v2.arguments import arguments
from fate_flow.api.v2.envelope import ok
from fate_flow.api.v2.errors import TableNotFound, not_found
from fate_flow.api.v2.tables.form import meta_of
from fate_flow.api.v2.tables.local_jobs import LocalJobs
from fate_flow.core.access.client_roles import OPERATE, SUBMIT
from fate_flow.core.model.errors import NotFound
from fate_flow.store.values import TableMeta
from fate_flow.store.views.views import Views

TABLE: Arguments = {"namespace": TEXT, "name": TEXT}
_ENGINE = "standalone"
"""FATE's name for tables on the disk of one machine."""


def blueprint(services: Services) -> Blueprint:
    routes = _TableRoutes(services)
    tables = Blueprint("v2_tables", __name__, url_prefix="/v2/table")
    tables.get("/query")(routes.query)
    tables.post("/delete")(routes.delete)
    tables.post("/bind/path")(routes.bind)
    return tables


def table_asked(views: Views) -> TableMeta:
    """Return the table that the request names. Raise TableNotFound."""
    sent = arguments()
    table = views.table(read_table_piece(sent, "namespace"), read_table_piece(sent, "name"))
    if table is None:
        raise not_found(TableNotFound, name=sent["name"], namespace=sent["namespace"])
    return table


class _TableRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._local_jobs = LocalJobs(services)

    @declared("Show a table: its columns, its number of rows, where it is from.", SUBMIT, needs=TABLE,
              takes={"display": YES_NO}, data=FREE)
    def query(self) -> Response:
        """Return the table; with `display` also its first rows, which is why a reader may not ask."""
        table = table_asked(self._services.views)
        data = {
            "namespace": table.namespace, "name": table.name, "count": table.count, "meta": meta_of(table),
            "engine": _ENGINE, "path": table.uri, "data_type": "table",
            "source": {"origin": table.origin, "job_id": table.job_id},
        }  # fmt: skip
        return ok({**data, "display": first_rows(table)} if arguments().get("display") else data)

    @declared("Delete a table.", SUBMIT | OPERATE, needs=TABLE)
    def delete(self) -> Response:
        table = table_asked(self._services.views)
        try:
            self._services.use_cases.tables.drop_table(table.namespace, table.name, caller())
        except NotFound as error:           # by another request, meanwhile
            raise not_found(TableNotFound, name=table.name, namespace=table.namespace) from error
        return ok()

    @declared(
        "Start a local job that makes a table of a CSV file on the server's machine.", SUBMIT,
        needs=TABLE | {"path": TEXT}, data=FREE,
    )
    def bind(self) -> Response:
        sent = arguments()
        path = readable_file(self._services.settings, sent["path"], "path")
        return self._local_jobs.upload(sent, path, {"head": True, "partitions": 1, "meta": {}}, is_bound=True)
