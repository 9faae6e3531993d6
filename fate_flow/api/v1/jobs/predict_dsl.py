"""`/v1/job/dsl/generate`: derive the DSL of a prediction from that of a training (client-api-v1, section 3.1)."""

from __future__ import annotations

import re
from typing import Any

from flask import Blueprint, Response

from fate_flow.api.http.arguments import FILE_NAME, Body, read_file_name
from fate_flow.api.http.declared import FREE, NOTHING, TEXT, a_list, an_object, by_name, declared, described
from fate_flow.api.http.file_routes import file_follows
from fate_flow.api.v1.envelope import HttpError, arguments, attached, ok
from fate_flow.core.access.client_roles import READ
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import shown
from fate_flow.jobspec.fate_v1.predict_dsl import predict_dsl
from fate_flow.jobspec.text.json_text import read_json_text

NOT_MADE = 210
_VERSIONS = ("2", 2, None)
_BETWEEN = re.compile(r"[\s,\[\]'\"]+")
_NAMES = a_list(TEXT)
_DSL = an_object({"components": by_name(FREE)}, title="PredictDsl")


def blueprint() -> Blueprint:
    predict = Blueprint("predict_dsl", __name__, url_prefix="/v1/job/dsl")
    predict.post("/generate")(_generate)
    return predict


@file_follows
@declared(
    "Derive the DSL of a prediction from that of a training: some of its components and the readers that they need, as "
    "data or as a file.", READ,
    needs={"train_dsl": described({"type": ["string", "object"]}, "The DSL of the training, or its JSON.")},
    takes={
        "cpn_str": described(
            {"anyOf": [TEXT, _NAMES, NOTHING]},
            "The components, separated by commas or as a list; by default all but those with need_deploy false.",
        ),
        "version": described({"enum": ["2", 2]}, "The version of the DSL."),
        "filename": FILE_NAME,
    },
    data=_DSL, file="application/json", content=_DSL, also={NOT_MADE: "The DSL cannot be made."},
)
def _generate() -> Response:
    try:
        body = arguments("train_dsl")
        made, file_name = predict_dsl(_train_dsl(body), _names(body)), read_file_name(body, "filename")
    except BadRequest as error:
        raise HttpError(NOT_MADE, error.message) from error
    return attached(made, file_name) if file_name else ok(made)


def _train_dsl(body: Body) -> Any:
    version, given = body.get("version"), body["train_dsl"]
    if version not in _VERSIONS or isinstance(version, bool):
        raise BadRequest(f"version: {shown(version)} is not 2, the only supported version of DSLs")
    if not isinstance(given, str):
        return given
    try:
        return read_json_text(given)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"train_dsl: is not JSON: {error}") from error


def _names(body: Body) -> list[str]:
    """Return the names that a user wrote: `a_0, b_0`, `[a_0,b_0]`, a file with a name per line, or a list."""
    given = body.get("cpn_str")
    if given is None:
        return []
    if isinstance(given, str):
        return [one for one in _BETWEEN.split(given) if one]
    if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
        raise BadRequest(f"cpn_str: {shown(given)} is not a list of component names, such as 'reader_0, lr_0'")
    return given
