"""Routes of the v1 API that this server does not offer: each says so, so that no client suspects a wrong address."""

from __future__ import annotations

from collections.abc import Callable

from flask import Blueprint, Response, request

from fate_flow.api.http.declared import declared
from fate_flow.api.http.file_routes import file_follows
from fate_flow.api.v1.envelope import error_response, failed
from fate_flow.components.providers.command import COMMAND
from fate_flow.core.access.client_roles import READ
from fate_flow.core.model.grammar import shown

_RETCODE = 100
_AS_FILE = 404               # for routes whose HTTP 200 means that a file follows

_NO_SERVING = "there is no FATE-Serving here: a job predicts with a deployed model (job_type predict)"
_NO_CONVERSION = "flow model export gives the files of a model as its component has written them"
_OWN_STORE = "flow model export and flow model import take models from one home to another"
_NO_MIGRATION = "a model names the parties of its job, and each keeps its own part: train it with the other parties"
_NO_CHECKPOINTS = "a rerun of the job makes the next version of the whole model"
_NO_MERGE = "no party has the parts of others, and none is sent"
_NO_BOARD = "flow job watch and flow job explain show a job"
_CONFIGURED = (
    "whoever runs the server names providers in its configuration (providers; docs/reference/configuration.md); a task "
    f"of {COMMAND.module} runs a program of your own at each party that allows it (docs/reference/programs.md)"
)
_BUILT_IN = "component/get lists what this server can run"
_PARTIES = "party/list shows the parties that this server knows, and whether they answer"
_SECTIONS = "server/service/get shows the sections of this server's configuration"
_OWN_WORKERS = "a worker asks where its task configuration says"

_LATER = {
    "table/schema/update": ("a change of a table's schema", "data/upload with drop"),
    "component/hetero/merge": ("merging models", _NO_MERGE),
    "component/woe_array/extract": ("woe arrays", _NO_CONVERSION),
    "component/woe_array/merge": ("woe arrays", _NO_CONVERSION),
    "component/validate": ("checking single components", "job/validate checks a whole job"),
    "component/<name>/get": ("asking about a single component", _BUILT_IN),
    "model/load": ("the loading of models into FATE-Serving", _NO_SERVING),
    "model/bind": ("the binding of models to FATE-Serving", _NO_SERVING),
    "model/migrate": ("the migration of models to other parties", _NO_MIGRATION),
    "model/store": ("databases of models", _OWN_STORE),
    "model/restore": ("databases of models", _OWN_STORE),
    "model/homo/convert": ("the conversion of models", _NO_CONVERSION),
    "model/homo/deploy": ("KFServing", _NO_SERVING),
    "checkpoint/<path:rest>": ("checkpoints of models", _NO_CHECKPOINTS),
    "server/<name>/get": ("a registry of servers", _SECTIONS),
    "server/<name>/register": ("a registry of servers", _SECTIONS),
    "service/<path:rest>": ("the registration of services", _SECTIONS),
    "provider/register": ("the registration of providers", _CONFIGURED),
    "provider/registry/get": ("the registration of providers", _BUILT_IN),
    "provider/update": ("the registration of providers", _CONFIGURED),
    "info/fateboard": ("a board for jobs", _NO_BOARD),
    "info/eggroll": ("EggRoll", "resource/query shows this server's own engine"),
    "forward/<path:rest>": ("forwarding to other parties", _PARTIES),
    "tracker/<path:rest>": ("what workers ask, but on a port of their own", _OWN_WORKERS),
    "operation/<path:rest>": ("what workers ask, but on a port of their own", _OWN_WORKERS),
    "worker/config/load": ("requests of workers of other versions", _OWN_WORKERS),
}
_LATER_AS_FILE = {
    "table/download": ("the download of a table", "data/download"),
}
"""By path below `/v1`: what is not offered, and what to use instead."""


def blueprint() -> Blueprint:
    later = Blueprint("not_offered", __name__, url_prefix="/v1")
    for table, answer, code, methods in (
        (_LATER, failed, _RETCODE, ["POST"]), (_LATER_AS_FILE, error_response, _AS_FILE, ["GET", "POST"]),
    ):  # fmt: skip
        for path, (what, instead) in table.items():
            name = f"{path.replace('/', '_')}".translate({ord(one): None for one in "<>:"})
            refuse = _refusal(answer, code, f"{what} ({{path}}); instead: {instead}")
            view = declared(f"Not offered: {what}. Instead: {instead}.", READ, never=code)(refuse)
            view = file_follows(view) if answer is error_response else view
            later.add_url_rule(f"/{path}", name, view, methods=methods)
    return later


def _refusal(answer: Callable[[int, str], Response], code: int, what: str) -> Callable[..., Response]:
    def refuse(**_: str) -> Response:
        return answer(code, f"this server does not offer {what.format(path=shown(request.path))}")

    return refuse
