"""Routes of the v1 API that this server does not have: each says so, so that nobody takes it for a wrong address."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, Response, request

from fate_flow.api.envelope import error_response, failed
from fate_flow.core.grammar import shown

_RETCODE = 100
_AS_FILE = 501               # where HTTP 200 would mean that a file follows

_LATER = {
    "job/parameter/update": "a change of the parameters of a job",
    "job/update": "notes on a job",
    "job/clean": "the removal of a job's data",
    "job/report": "the report of a job",
    "job/url/get": "a board for jobs",
    "data/writer": "writing to another storage",
    "table/add": "binding a table of another storage",
    "table/bind": "binding a table of another storage",
    "table/disable/delete": "deleting all disabled tables",
    "table/connector/create": "a connector to another storage",
    "table/connector/query": "a connector to another storage",
    "table/tracking/source": "the origin of a table",
    "table/tracking/job": "the jobs of a table",
    "table/list": "the list of a job's tables",
    "table/preview": "the preview of a table",
    "table/schema/update": "a change of a table's schema",
    "tracking/component/output/model": "models",
    "tracking/component/output/data": "the preview of output data",
    "tracking/component/metric_data": "single metrics",
    "tracking/component/metric/delete": "deleting metrics",
    "tracking/job/data_view": "the data view of a job",
    "pipeline/dag/dependency": "the picture of a DAG",
    "component/hetero/merge": "merging models",
    "component/woe_array/extract": "woe arrays",
    "component/woe_array/merge": "woe arrays",
    "component/validate": "checking single components",
    "component/<name>/get": "asking about a single component",
    "model/<path:rest>": "models",
    "checkpoint/<path:rest>": "checkpoints of models",
    "permission/<path:rest>": "privileges",
    "key/<path:rest>": "keys of parties",
    "server/reload": "reading the configuration again without a restart",
    "server/service/get": "a registry of services",
    "server/<name>/get": "a registry of servers",
    "server/<name>/register": "a registry of servers",
    "server/fateflow/info": "a list of server instances",
    "service/<path:rest>": "a registry of services",
    "provider/register": "the registration of providers",
    "provider/registry/get": "the registration of providers",
    "provider/update": "the registration of providers",
    "info/party/<path:rest>": "asking about another party",
    "info/fateboard": "a board for jobs",
    "info/eggroll": "EggRoll",
    "forward/<path:rest>": "forwarding to other parties",
    "tracker/<path:rest>": "what workers ask, but where their task configuration says",
    "operation/<path:rest>": "requests of workers of other versions",
    "worker/config/load": "requests of workers of other versions",
}
_LATER_AS_FILE = {
    "job/dsl/generate": "the DSL of a prediction",
    "template/download": "a template of a job",
    "table/download": "the download of a table: use data/download",
}


def blueprint() -> Blueprint:
    later = Blueprint("not_offered", __name__, url_prefix="/v1")
    for table, answer in ((_LATER, failed), (_LATER_AS_FILE, error_response)):
        code = _RETCODE if answer is failed else _AS_FILE
        for path, what in table.items():
            name = f"{path.replace('/', '_')}".translate({ord(one): None for one in "<>:"})
            view = _refusal(answer, code, what)
            later.add_url_rule(f"/{path}", name, view, methods=["GET", "POST"])
    return later


def _refusal(answer: Callable[[int, str], Response], code: int, what: str) -> Callable[..., Response]:
    def refuse(**_: str) -> Response:
        return answer(code, f"this server does not offer {what} ({shown(request.path)})")

    return refuse
