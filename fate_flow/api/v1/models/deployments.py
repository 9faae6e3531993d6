"""`/v1/model/deploy` and what FATE's clients ask of a deployed model: the DSL and a conf of its prediction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flask import Blueprint, Response

from fate_flow.api.http.arguments import FILE_NAME, Body, read_file_name
from fate_flow.api.http.caller import caller
from fate_flow.api.http.declared import ANYTHING, FREE, TEXT, Schema, a_list, an_object, by_name, declared, described
from fate_flow.api.http.file_routes import file_follows
from fate_flow.api.http.services import Services
from fate_flow.api.v1.envelope import HttpError, arguments, attached, failed, ok
from fate_flow.api.v1.models.arguments import MODEL, read_name
from fate_flow.core.access.client_roles import READ, SUBMIT
from fate_flow.core.model.errors import BadRequest, FlowError, NotFound, StorageFailed
from fate_flow.core.model.grammar import shown
from fate_flow.core.wire.v1.retcodes import retcode_of
from fate_flow.jobspec.text.json_text import read_json_text
from fate_flow.services.models.predicting import fate_id_of, predict_conf
from fate_flow.services.use_cases.models import Found, ModelParts

_NOT_MADE = 210
_DEPLOYED = an_object({"model_id": TEXT, "model_version": TEXT, "detail": FREE}, {"guest": FREE, "host": FREE})
_DSL: Schema = described({"type": ["string", "object"]}, "The DSL of the prediction, or its JSON.")


def blueprint(services: Services) -> Blueprint:
    routes = _Routes(services)
    deployed = Blueprint("deployments", __name__, url_prefix="/v1/model")
    deployed.post("/deploy")(routes.deploy)
    deployed.post("/get/predict/dsl")(routes.dsl)
    deployed.post("/get/predict/conf")(routes.conf)
    return deployed


class _Routes:
    def __init__(self, services: Services) -> None:
        self._models = services.use_cases.models
        self._new_name = services.new_job_id

    @declared(
        "Deploy a model: a selection of the tasks that have made it, under a new version. Only this party keeps that; "
        "a job that predicts with it names the models themselves to the others.", SUBMIT,
        needs=MODEL,
        takes={
            "cpn_list": described(a_list(TEXT), "The tasks; by default all but those with need_deploy false."),
            "dsl": _DSL, "predict_dsl": described(_DSL, "The same as dsl, with precedence."),
            "components_checkpoint": described({"enum": [{}]}, "FATE's; there are no checkpoints here."),
        },
        data=_DEPLOYED, refused=TEXT,
    )  # fmt: skip
    def deploy(self) -> Response:
        """Deploy a model. FATE's pipeline shows only `data` of a refusal, so the reason is there, too."""
        try:
            body = arguments("model_id", "model_version")
            tasks, dsl = _tasks(body), _given_dsl(body)
            if body.get("components_checkpoint"):
                raise BadRequest("components_checkpoint: there are no checkpoints of models here")
            made, part = self._models.deploy(self._new_name(), _named(body), tasks, dsl, caller())
        except StorageFailed:
            raise
        except FlowError as error:
            return failed(retcode_of(error), error.message, error.message)
        done = f"deployed at party {part.party.party_id}, which submits the jobs that predict with it"
        return ok({
            "model_id": fate_id_of(part), "model_version": made.name,
            "detail": {part.party.role: {part.party.party_id: {"retcode": 0, "retmsg": done}}},
            **({part.party.role: {part.party.party_id: 0}} if part.party.role in ("guest", "host") else {}),
        })  # fmt: skip

    @file_follows
    @declared(
        "Show the DSL of a prediction with a deployed model, as data or as a file.",
        READ, needs=MODEL, takes={"filename": FILE_NAME}, data=an_object({"components": by_name(FREE)}),
        file="application/json", content=an_object({"components": by_name(FREE)}), also={_NOT_MADE: "There is none."},
    )
    def dsl(self) -> Response:
        return self._answer(_dsl_of)

    @file_follows
    @declared(
        "Show a conf for a job that predicts with a deployed model, with names of tables to be filled in.",
        READ, needs=MODEL, takes={"filename": FILE_NAME}, data=ANYTHING, file="application/json", content=FREE,
        also={_NOT_MADE: "There is none."},
    )
    def conf(self) -> Response:
        return self._answer(_conf_of)

    def _answer(self, make: Callable[[Found], dict[str, Any]]) -> Response:
        try:
            body = arguments("model_id", "model_version")
            file_name, made = read_file_name(body, "filename"), make(self._models.found(_named(body)))
        except (BadRequest, NotFound) as error:
            raise HttpError(_NOT_MADE, error.message) from error
        return attached(made, file_name) if file_name else ok(made)


def _named(body: Body) -> ModelParts:
    return ModelParts(read_name(body, "model_id"), read_name(body, "model_version"))


def _tasks(body: Body) -> list[str]:
    given = body.get("cpn_list")
    if given is None:
        return []
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise BadRequest(f"cpn_list: {shown(given)} is not a list of component names")
    return list(given)


def _given_dsl(body: Body) -> Mapping[str, Any] | None:
    """Return the DSL of the prediction that a client has sent, as JSON or as its text; None if it has sent none."""
    given = body.get("predict_dsl") or body.get("dsl")
    if isinstance(given, str):
        try:
            given = read_json_text(given)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"dsl: is not JSON: {error}") from error
    if not given:
        return None
    components = given.get("components") if isinstance(given, dict) else None
    if not isinstance(components, dict) or not all(isinstance(one, dict) for one in components.values()):
        raise BadRequest(f"dsl: {shown(given)} is not a DSL with components")
    return {"components": components}


def _dsl_of(found: Found) -> dict[str, Any]:
    if found.named is None:
        raise NotFound("model_version: the model is not deployed; flow model deploy makes the DSL of its prediction")
    return dict(found.named.document["dsl"])


def _conf_of(found: Found) -> dict[str, Any]:
    if found.named is None:
        raise NotFound("model_version: the model is not deployed; flow model deploy gives it a version to predict with")
    return predict_conf(found.named, fate_id_of(found.models[0]))
