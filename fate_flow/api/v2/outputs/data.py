"""`/v2/output/data/...`: the tables that a task has put out (client-api-v2, sections 5 and 6).

Two of the routes answer without an envelope, as FATE Flow 2 does: an object by the key of the output.
"""

from __future__ import annotations

from collections.abc import Iterator

from flask import Blueprint, Response

from fate_flow.api.http.archive import GZIP, Member, tar_response
from fate_flow.api.http.declared import FREE, TEXT, a_list, by_name, declared
from fate_flow.api.http.services import Services
from fate_flow.api.v1.jobs.board_data import first_rows
from fate_flow.api.v2.arguments import arguments
from fate_flow.api.v2.envelope import without_envelope
from fate_flow.api.v2.errors import TableNotFound, not_found
from fate_flow.api.v2.outputs.asked import TASK, AskedTask, task_asked
from fate_flow.api.v2.tables.form import members_of, meta_of
from fate_flow.core.access.client_roles import READ, SUBMIT
from fate_flow.store.values import OutputTable, TableMeta

Made = list[tuple[OutputTable, TableMeta | None]]
"""The tables under one key of a task; None for a table that was deleted or replaced since."""


def blueprint(services: Services) -> Blueprint:
    routes = _OutputRoutes(services)
    outputs = Blueprint("v2_output_data", __name__, url_prefix="/v2/output/data")
    outputs.get("/table")(routes.tables)
    outputs.get("/display")(routes.display)
    outputs.get("/download")(routes.download)
    return outputs


class _OutputRoutes:
    def __init__(self, services: Services) -> None:
        self._views = services.views

    @declared("List the output tables of a task.", READ, needs=TASK, content=by_name(a_list(FREE)))
    def tables(self) -> Response:
        return without_envelope({
            key: [{"name": one.name, "namespace": one.namespace} for one, _ in made]
            for key, made in self._outputs(task_asked(self._views)).items()
        })  # fmt: skip

    @declared("Show the first rows of the output tables of a task.", SUBMIT, needs=TASK, content=by_name(a_list(FREE)))
    def display(self) -> Response:
        return without_envelope({
            key: [
                {"data": first_rows(table), "metadata": meta_of(table), "total": table.count}
                for _, table in made if table is not None
            ]
            for key, made in self._outputs(task_asked(self._views)).items()
        })  # fmt: skip

    @declared(
        "Download the output tables of a task, as CSV files in a tar.", SUBMIT, needs=TASK, takes={"output_key": TEXT},
        file=GZIP,
    )
    def download(self) -> Response:
        asked, key = task_asked(self._views), arguments().get("output_key")
        made = self._outputs(asked)
        members = [
            one for name, tables in made.items() if key in (None, name) for one in _members(name, tables)
        ]  # fmt: skip
        if not members:
            raise not_found(TableNotFound, output_key=key)
        party = asked.party
        return tar_response(f"{asked.job_id}_{party.role}_{party.party_id}_{asked.name}", members)

    def _outputs(self, task: AskedTask) -> dict[str, Made]:
        found: dict[str, Made] = {}
        for one, table in self._views.outputs(task.job_id, task.name, task.party):
            key, _, _ = one.data_name.partition(".")         # of several tables under one key, each has its number
            found.setdefault(key, []).append((one, table))
        return found


def _members(key: str, made: Made) -> Iterator[Member]:
    """Yield the files of the tables under this key. Raise TableNotFound if one of them is gone."""
    for number, (one, table) in enumerate(made):
        if table is None:
            raise not_found(TableNotFound, name=one.name, namespace=one.namespace)
        yield from members_of(table, key, number)
