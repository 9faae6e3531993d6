"""`/v1/tracking/component/...`: a component's parameters and its results here (client-api-v1, section 3.4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flask import Blueprint, Response

from fate_flow.api.http.archive import GZIP, Member, csv_of, tar_response, text_member
from fate_flow.api.http.arguments import (
    COMPONENT,
    FILE_NAME,
    FLAG,
    JOB,
    read_component,
    read_file_name,
    read_flag,
    read_job_id,
    read_party,
    read_task_version,
    read_text,
    read_whole,
    whole,
)
from fate_flow.api.http.declared import ANYTHING, COUNT, FREE, TEXT, a_list, an_object, by_name, declared, described
from fate_flow.api.http.file_routes import file_follows
from fate_flow.api.http.json_text import to_json
from fate_flow.api.http.services import Services
from fate_flow.api.http.shapes import OUTPUT_TABLES
from fate_flow.api.v1.envelope import SUCCESS, HttpError, arguments, attached, failed, ok, reply
from fate_flow.api.v1.rendering.jobs_beside import JOBS_BESIDE, jobs_beside
from fate_flow.components.tables.table import NoSuchTable
from fate_flow.core.access.client_roles import OPERATE, READ, SUBMIT
from fate_flow.core.model.errors import NotFound
from fate_flow.core.model.job import TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.core.wire.v1.paths import output_table_path
from fate_flow.jobspec.fate_v1.reader import component_parameters_on
from fate_flow.services.context.documents import spec_in_row
from fate_flow.store.values import Metric, OutputTable, StoredModel, TableMeta
from fate_flow.store.views.board_task import MadeTable
from fate_flow.store.views.metrics import for_fate_1

NO_DATA = 210
_NEEDED = ("job_id", "role", "party_id", "component_name")

_VERSION = {"task_version": whole("Version of the task; the newest that has any by default.")}
_NO_DATA = {NO_DATA: "There is no data."}
_SUMMARY = {**FREE, "not": {"required": ["retcode", "retmsg"]}, "description": "A file with only the summary."}
_MODEL = an_object({
    "module_name": TEXT, "model_id": TEXT, "model_version": COUNT, "type_name": TEXT, "sha256": TEXT, "bytes": COUNT,
    "metadata": FREE,
})  # fmt: skip
_MOST_SHOWN = 4 * 1024 * 1024
_ALL = an_object({"data": a_list(ANYTHING), "meta": FREE}, title="Metric")


def blueprint(services: Services) -> Blueprint:
    routes = _TrackingRoutes(services)
    tracking = Blueprint("tracking", __name__, url_prefix="/v1/tracking/component")
    for path, view, method in (
        ("/list", routes.components, "POST"),
        ("/parameters", routes.parameters, "POST"),
        ("/metrics", routes.metrics, "POST"),
        ("/metric/all", routes.metric_all, "POST"),
        ("/metric_data", routes.metric_data, "POST"),
        ("/output/data/download", routes.download_output, "GET"),
        ("/output/data/table", routes.output_tables, "POST"),
        ("/output/model", routes.output_model, "POST"),
        ("/summary/download", routes.summary, "POST"),
    ):
        tracking.add_url_rule(path, view_func=view, methods=[method])
    return tracking


class _TrackingRoutes:
    def __init__(self, services: Services) -> None:
        self._context = services.context
        self._views = services.views
        self._models = services.use_cases.models
        self._own = services.settings.party_id
        self._asking = services.asking

    @declared(
        "List the components of a job.", READ, needs=JOB, data=an_object({"components": a_list(TEXT)}),
        aside=JOBS_BESIDE,
    )
    def components(self) -> Response:
        job_id = read_job_id(arguments("job_id"))
        document = self._views.document(job_id)
        if document is None:
            return failed(100, f"can not found job {job_id}")
        return ok({"components": list(document.dsl.get("components", {}))}, **self._beside(job_id))

    @declared(
        "Show the parameters of a component.", READ, needs=COMPONENT,
        data={**FREE, "properties": {"module": TEXT}, "required": ["module"]},
        aside=JOBS_BESIDE,
    )
    def parameters(self) -> Response:
        """Return the module, and the values of the keys that end in `Param`."""
        job_id, party, name, _ = _component()
        document = self._views.document(job_id)
        spec = spec_in_row(self._context, document) if document is not None else None
        task = spec.tasks.get(name) if spec is not None else None
        if spec is None or task is None or party not in task.parties:
            raise NotFound(f"can not found this task: {name} of job {job_id} on {party}")
        if party in spec.withheld:
            raise NotFound(
                f"the parameters of {name} of job {job_id} on {party} are not known here: ask that party, or "
                f"{spec.initiator}, the initiator"
            )
        read = component_parameters_on(spec, task, party)
        found = {key: value for key, value in read.items() if key == "module" or key.endswith("Param")}
        return ok(found, **self._beside(job_id))

    def _beside(self, job_id: str) -> dict[str, Any]:
        return jobs_beside(self._views, [job_id])

    # ------------------------------------------------------------------ metrics

    @declared(
        "List the names of a component's metrics.", READ, needs=COMPONENT, data=by_name(a_list(TEXT)),
        aside=JOBS_BESIDE,
    )
    def metrics(self) -> Response:
        job_id, found = self._metrics()
        names: dict[str, list[str]] = {}
        for one in found:
            names.setdefault(one.namespace, []).append(one.name)
        return ok(names, SUCCESS if names else "no data", **self._beside(job_id))

    @declared(
        "Show all metrics of a component.", READ, needs=COMPONENT, takes=_VERSION, data=by_name(by_name(_ALL)),
        aside=JOBS_BESIDE,
    )
    def metric_all(self) -> Response:
        job_id, party, name, body = _component()
        version = read_task_version(body)
        if version is None:
            metrics = self._views.metrics(job_id, name, party)
        else:
            metrics = self._views.board.metrics(TaskKey(job_id, name, version, party))
        found: dict[str, dict[str, Any]] = {}
        for one in map(for_fate_1, metrics):
            found.setdefault(one.namespace, {})[one.name] = {"data": one.data, "meta": one.meta}
        return ok(found, SUCCESS if found else "no data", **self._beside(job_id))

    @declared(
        "Show one metric of a component.", READ, needs={"metric_namespace": TEXT, "metric_name": TEXT} | COMPONENT,
        data=a_list(ANYTHING), beside={"meta": FREE},
    )
    def metric_data(self) -> Response:
        """Return one metric."""
        body = arguments("metric_namespace", "metric_name", *_NEEDED)
        wanted = read_text(body, "metric_namespace"), read_text(body, "metric_name")
        for one in self._metrics()[1]:
            if (one.namespace, one.name) == wanted:
                return ok(one.data, meta=one.meta)
        return ok([], "no data", meta={})

    def _metrics(self) -> tuple[str, tuple[Metric, ...]]:
        """Return the job and the metrics that the request means."""
        job_id, party, name, _ = _component()
        return job_id, tuple(map(for_fate_1, self._views.metrics(job_id, name, party)))

    # ------------------------------------------------------------------ outputs

    @file_follows
    @declared(
        "Download a component's output tables, as CSV files in a tar.", SUBMIT,
        needs=COMPONENT, file=GZIP, also=_NO_DATA,
        takes={"limit": whole("Rows of each table; -1: all.", -1, default=-1), "head": described(FLAG, "A header.")},
    )
    def download_output(self) -> Response:
        """Send the output tables as CSV, each with a `.meta` file that names the columns."""
        job_id, party, name, body = _component()
        limit = read_whole(body, "limit", -1, minimum=-1)
        if limit == 0:
            raise HttpError(NO_DATA, "limit is 0")
        made = self._views.outputs(job_id, name, party)
        tables = [(one.data_name, table) for one, table in made if table is not None]
        if not tables:
            gone = [f"{one.namespace}.{one.name} was deleted or replaced since" for one, _ in made]
            raise HttpError(NO_DATA, ": ".join(["no data", *gone[:1]]))
        try:
            members = list(_members(tables, limit, read_flag(body, "head", True)))
        except NoSuchTable as error:
            raise HttpError(NO_DATA, f"no data: {error.message}") from error
        return tar_response(f"job_{job_id}_{name}_{party.role}_{party.party_id}_output_data.tar.gz", members)

    @declared(
        "List a component's output tables: what it has published, or all of a version of a task that runs here.", READ,
        needs=COMPONENT, takes=_VERSION, data=OUTPUT_TABLES, aside=JOBS_BESIDE, relays=True,
    )
    def output_tables(self) -> Response:
        job_id, party, name, body = _component()
        version = read_task_version(body)
        document = self._views.document(job_id)
        if document is not None and name not in (there := document.dsl.get("components", {})):
            return failed(100, f"No found component: job {job_id} has no {name}; it has {', '.join(there)}")
        if party.party_id not in (self._own, "0"):
            if version is not None:
                return failed(100, f"task_version: {party} tells of the newest version alone; leave it out")
            return self._output_tables_at(party, job_id, name)
        made: Sequence[OutputTable | MadeTable]
        if version is None:
            made = [one for one, _ in self._views.outputs(job_id, name, party)]
        else:
            made = self._views.board.share(TaskKey(job_id, name, version, party)).tables
        if not made:
            why = "No found table" if document is not None else "No found job"
            return failed(100, f"{why}: {name} of job {job_id} on {party} made no table at this party's server")
        return ok(
            [
                {"table_name": one.name, "table_namespace": one.namespace, "data_name": one.data_name}
                for one in made
            ],
            **self._beside(job_id),
        )

    @declared(
        "Show the models of a component, by their outputs: the content of those that are one file of JSON.",
        SUBMIT | OPERATE, needs=COMPONENT, takes=_VERSION, data=by_name(ANYTHING), beside={"meta": by_name(_MODEL)},
    )
    def output_model(self) -> Response:
        """Return what the newest run, or a version of the task, has stored in the store of models of this party."""
        job_id, party, name, body = _component()
        made = self._models.made_by(job_id, party, name, read_task_version(body))
        if not made:
            return ok({}, "no data", meta={})
        data = {one.reference.output: self._models.value(one, _MOST_SHOWN) for one in made}
        return ok(data, meta={one.reference.output: _about(one) for one in made})

    def _output_tables_at(self, party: Party, job_id: str, name: str) -> Response:
        """Ask the party itself: only it knows its tables."""
        with self._asking("output table", job_id) as ask_party:
            answer = ask_party(party, output_table_path(job_id, name, party), {})
        if answer.is_ok and not answer.data:
            return failed(100, f"No found table: {name} of job {job_id} on {party} made no table")
        return reply(answer)

    @file_follows
    @declared(
        "Show the summary of a component, as data or as a file.", READ, needs=COMPONENT, takes={"filename": FILE_NAME},
        data=FREE, aside=JOBS_BESIDE, file="application/json", content=_SUMMARY, also=_NO_DATA,
    )
    def summary(self) -> Response:
        """Return the summary as data, or as a file if the client names one."""
        job_id, party, name, body = _component()
        found = self._views.summary(job_id, name, party)
        if found is None:
            raise HttpError(NO_DATA, "no data")
        file_name = read_file_name(body, "filename")
        return attached(found, file_name) if file_name else ok(dict(found), **self._beside(job_id))


def _component() -> tuple[str, Party, str, dict[str, Any]]:
    """Return the job, the party and the component of the request, and its body."""
    body = arguments(*_NEEDED)
    return read_job_id(body), read_party(body), read_component(body), body


def _about(model: StoredModel) -> dict[str, Any]:
    return {
        "module_name": model.component, "model_id": model.reference.model_id, "model_version": model.reference.version,
        "type_name": model.kind, "sha256": model.sha256, "bytes": model.size, "metadata": dict(model.metadata),
    }  # fmt: skip


def _members(tables: list[tuple[str, TableMeta]], limit: int, has_head: bool) -> Iterator[Member]:
    for data_name, table in tables:
        columns = [table.schema.get("sid", "id"), *table.schema.get("header", ())]
        yield csv_of(table.uri, data_name, limit, has_head)
        yield text_member(f"{data_name}.meta", to_json({"header": columns}))
