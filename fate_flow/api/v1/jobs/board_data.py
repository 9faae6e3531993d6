"""The data of a job for a board: its DAG, its tables, the first rows of a component's output (client-api-v1, 3.1)."""

from __future__ import annotations

from itertools import islice
from typing import Any

from flask import Blueprint, Response

from fate_flow.api.http.arguments import COMPONENT, JOB, SEAT, Body, read_component, read_job_id, read_party
from fate_flow.api.http.declared import COUNT, TEXT, WHOLE, YES_NO, a_list, an_object, by_name, declared, one_of
from fate_flow.api.http.services import Services
from fate_flow.api.v1.envelope import arguments, ok
from fate_flow.components.tables.table import NoSuchTable, Table
from fate_flow.core.access.client_roles import READ, SUBMIT
from fate_flow.core.model.errors import NotFound
from fate_flow.core.model.grammar import ROLES
from fate_flow.core.model.job import JobKey
from fate_flow.core.model.spec import Input, JobSpec, Party, TaskSpec
from fate_flow.services.artifacts.tables import tables_of
from fate_flow.services.context.documents import spec_in_row
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.values import Document, OutputTable, TableMeta

MOST_SHOWN = 100      # rows of a table, FATE's number
_SEAT = ("job_id", "role", "party_id")

COLUMNS = a_list(TEXT, minItems=1, description="The names of the columns, that of the ids first.")
ROWS = a_list(a_list(TEXT), maxItems=MOST_SHOWN, description="The first rows, the id first.")
_KIND = one_of(("data", "model", "cache"))
_DEPENDENCIES = an_object({
    "component_list": a_list(TEXT),
    "component_module": by_name(TEXT),
    "component_need_run": by_name(YES_NO),
    "dependencies": by_name(a_list(an_object({
        "component_name": TEXT, "type": _KIND,
        "up_output_info": a_list({"anyOf": [_KIND, COUNT]}, minItems=2, maxItems=2),
    }, title="Dependency"))),
})  # fmt: skip
_ROLES = {"type": "object", "propertyNames": one_of(ROLES), "additionalProperties": a_list(WHOLE)}
_DATA_VIEW = an_object({
    "partner": _ROLES,
    "roles": _ROLES,
    "dataset": by_name(by_name(by_name(TEXT)), description="By role, party id and component: namespace.name."),
    "model_summary": an_object({}),
})  # fmt: skip
_TABLES = by_name(an_object({"name": TEXT, "namespace": TEXT}))
_META = an_object(
    {}, {"header": a_list(COLUMNS), "total": a_list(COUNT), "names": a_list(TEXT)}, description="Empty without data."
)


def blueprint(services: Services) -> Blueprint:
    routes = _BoardRoutes(services)
    board = Blueprint("board_data", __name__, url_prefix="/v1")
    for path, view in {
        "/pipeline/dag/dependency": routes.dependency,
        "/tracking/job/data_view": routes.data_view,
        "/tracking/component/output/data": routes.output_data,
        "/table/list": routes.tables,
    }.items():
        board.add_url_rule(path, view_func=view, methods=["POST"])
    return board


class _BoardRoutes:
    def __init__(self, services: Services) -> None:
        self._context = services.context
        self._views = services.views

    @declared("Show the components of a job, and what each depends on.", READ, needs=JOB | SEAT, data=_DEPENDENCIES)
    def dependency(self) -> Response:
        """Return the components in a possible order of execution, and what each depends on."""
        party, spec = self._seat(arguments(*_SEAT))
        tasks = spec.tasks.values()
        return ok({
            "component_list": list(spec.tasks),
            "component_module": {task.name: task.module for task in tasks},
            "component_need_run": {
                task.name: party in task.parties and party not in task.passed_at for task in tasks
            },
            "dependencies": {task.name: _needs(spec, task) for task in tasks},
        })

    @declared("Show the parties of a job and their tables.", READ, needs=JOB | SEAT, data=_DATA_VIEW)
    def data_view(self) -> Response:
        """Return the parties of the job and their tables."""
        _, spec = self._seat(arguments(*_SEAT))
        dataset: dict[str, dict[str, dict[str, str]]] = {}
        for party in spec.parties:
            of_party = dataset.setdefault(party.role, {}).setdefault(party.party_id, {})
            for task in spec.tasks_of(party) if party not in spec.withheld else ():
                if (table := task.table_at(party)) is not None:
                    of_party[task.name] = ".".join(table)
                elif (output := task.output_at(party)) is not None:
                    of_party[task.name] = str(output)
        return ok({"partner": spec.roles, "roles": spec.roles, "dataset": dataset, "model_summary": {}})

    @declared(
        "List the input and output tables of each component of a job.", READ, needs=JOB | SEAT,
        data=by_name(an_object({"input": _TABLES, "output": _TABLES})),
    )
    def tables(self) -> Response:
        """Return the input and output tables of each component at this seat, as far as they are known here."""
        body = arguments(*_SEAT)
        party, spec = self._seat(body)
        job_id = read_job_id(body)
        made = self._context.read(lambda tx: {
            name: {one.data_name: one for one in tx.outputs(job_id, name, party)} for name in spec.tasks
        })
        return ok({
            task.name: {
                "input": {
                    f"{source.producer}.{table.data_name}": _named(table)
                    for one in _data_of(task) for source in one.sources
                    for table in tables_of(made[source.producer].values(), source.alias)
                },
                "output": {name: _named(one) for name, one in made[task.name].items()},
            }
            for task in spec.tasks_of(party)
        })

    @declared(
        f"Show the first {MOST_SHOWN} rows of each output table of a component.", SUBMIT,
        needs=COMPONENT, data=a_list(ROWS),
        beside={"meta": _META},
    )
    def output_data(self) -> Response:
        """Return the first rows of each output table of a component, with its columns and its number of rows."""
        body = arguments(*_SEAT, "component_name")
        job_id, party, name = read_job_id(body), read_party(body), read_component(body)
        made = self._views.outputs(job_id, name, party)
        shown = [(one.data_name, table) for one, table in made if table is not None]
        if not shown:
            return ok([], "no data", meta={})
        return ok(
            [first_rows(table) for _, table in shown],
            meta={
                "header": [columns_of(table) for _, table in shown],
                "total": [table.count for _, table in shown],
                "names": [data_name for data_name, _ in shown],
            },
        )

    def _seat(self, body: Body) -> tuple[Party, JobSpec]:
        """Return the seat and the specification of a job. Raise NotFound if the job has no such seat here."""
        job_id, party = read_job_id(body), read_party(body)

        def find(tx: Transaction) -> Document | None:
            return tx.document(job_id) if tx.job(JobKey(job_id, party)) is not None else None

        document = self._context.read(find)
        if document is None:
            raise NotFound(f"find job failed: job {job_id} on {party}")
        return party, spec_in_row(self._context, document)


def columns_of(table: TableMeta) -> list[str]:
    return [str(table.schema.get("sid", "id")), *map(str, table.schema.get("header", ()))]


def first_rows(table: TableMeta) -> list[list[str]]:
    """Return the first rows of a table. Raise NotFound if its file was removed."""
    try:
        with Table(table.uri) as rows:
            return [list(row) for row in islice(rows, MOST_SHOWN)]
    except NoSuchTable as error:
        raise NotFound(f"no data: {error.message}") from error


def _data_of(task: TaskSpec) -> list[Input]:
    return [one for one in task.inputs if one.kind == "data"]


def _needs(spec: JobSpec, task: TaskSpec) -> list[dict[str, Any]]:
    """Return the source of each input in FATE's form: an output is named by its place among those of its kind."""
    found = []
    for one in task.inputs:
        for source in one.sources:
            made = [output.alias for output in spec.tasks[source.producer].outputs if output.kind == one.kind]
            place = made.index(source.alias) if source.alias in made else 0
            found.append({
                "component_name": source.producer, "type": one.kind, "up_output_info": [one.kind, place],
            })
    return found


def _named(output: OutputTable) -> dict[str, str]:
    return {"name": output.name, "namespace": output.namespace}
