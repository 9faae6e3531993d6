"""What the routes about models read from a body, and how they show a model."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from fate_flow.api.http.arguments import COMPONENT_NAME, PARTY_ID, ROLE, Body, line, read_line, read_text
from fate_flow.api.http.declared import (
    COUNT,
    FREE,
    NOTHING,
    TEXT,
    TIME,
    YES_NO,
    Arguments,
    Schema,
    a_list,
    an_object,
    described,
    or_null,
)
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_component_name, check_party_id, check_role, shown
from fate_flow.core.model.spec import Party
from fate_flow.services.models.predicting import fate_id_of
from fate_flow.services.use_cases.models import Found, ModelParts
from fate_flow.store.values import ModelTag, StoredModel

_LONGEST_NAME = 1_000          # FATE's model ids name all parties of a job
_LONGEST_TAG = 100
_LONGEST_NUMBER = 84           # bits: a job id of 25 digits

_ID_OR_NUMBER: Schema = {"type": ["string", "integer"], "minLength": 1, "maxLength": _LONGEST_NAME}
_NO_SEAT = dict.fromkeys(("role", "party_id"), NOTHING)

MODEL: Arguments = {
    "model_id": described(_ID_OR_NUMBER, "The id of a model: that of its job, or FATE's: guest-1#host-2#model."),
    "model_version": described(
        _ID_OR_NUMBER,
        "The version: a number; or as in FATE the id of the job, which means its newest, or the name of a deployment.",
    ),
}
PARTS: Arguments = {
    "role": described(ROLE, "Only at this seat, with party_id."), "party_id": PARTY_ID,
    "task_name": described(COMPONENT_NAME, "Only what this task has made."),
    "output_key": line("Only this output.", _LONGEST_TAG),
}  # fmt: skip
ONE_SEAT_OR_ALL: tuple[Schema, ...] = tuple(
    {"required": [key, *seat], "properties": {key: MODEL[key], **({one: PARTS[one] for one in seat} or _NO_SEAT)}}
    for key in MODEL for seat in (("role", "party_id"), ())
)
"""A model is named by its id, its version or both; a seat by its role and its party id, or not at all."""
TAG_NAME: Arguments = {"tag_name": line("The name of a tag.", _LONGEST_TAG)}

_PART = an_object({
    "role": TEXT, "party_id": TEXT, "task_name": TEXT, "output_key": TEXT, "type_name": TEXT, "component": TEXT,
    "sha256": TEXT, "bytes": COUNT, "task_version": COUNT,
})  # fmt: skip
VERSION = an_object(
    {
        "model_id": TEXT, "model_version": COUNT, "fate_model_id": TEXT, "job_id": TEXT, "initiator_party_id": TEXT,
        "roles": FREE, "create_time": TIME, "tags": a_list(TEXT), "deployed_as": a_list(TEXT), "models": a_list(_PART),
    },
    title="StoredModel",
)  # fmt: skip
CONTENT: Schema = a_list(an_object({**_PART["properties"], "metadata": FREE, "content": {}}))
TAG = an_object({"name": TEXT, "description": TEXT, "create_time": TIME}, title="ModelTag")
ROW = an_object({}, {
    "f_model_id": TEXT, "f_model_version": TEXT, "f_role": TEXT, "f_party_id": TEXT, "f_roles": FREE,
    "f_create_time": TIME, "f_create_date": TEXT, "f_size": COUNT, "f_loaded_times": COUNT, "f_description": TEXT,
    "f_parent": YES_NO, "f_parent_info": FREE, "f_job_id": TEXT, "f_components": a_list(TEXT),
    "f_store_version": COUNT,
}, title="FateModel")  # fmt: skip
NO_CONTENT = or_null(FREE)


def read_parts(body: Body) -> ModelParts:
    """Return which parts of a model a body names. Raise BadRequest."""
    party, task = None, ""
    if body.get("role") is not None or body.get("party_id") is not None:
        party = Party(check_role(body.get("role")), check_party_id(body.get("party_id")))
    if body.get("task_name") is not None:
        task = check_component_name(body["task_name"], "task_name")
    output = read_line(body, "output_key", _LONGEST_TAG) if body.get("output_key") is not None else ""
    return ModelParts(read_name(body, "model_id"), read_name(body, "model_version"), party, task, output)


def read_name(body: Body, key: str) -> str:
    """Return a name that only a row is looked up by."""
    value = body.get(key)
    if value is None:
        return ""
    is_number = isinstance(value, int) and not isinstance(value, bool) and value.bit_length() <= _LONGEST_NUMBER
    text = str(value) if is_number else value
    if not isinstance(text, str) or not 0 < len(text) <= _LONGEST_NAME:
        raise BadRequest(f"{key}: {shown(value)} is not the name of a model")
    return read_text({key: text}, key)


def read_tag_name(body: Body, key: str = "tag_name") -> str:
    return read_line(body, key, _LONGEST_TAG)


def version_as_json(found: Found) -> dict[str, Any]:
    one = found.models[0]
    return {
        "model_id": one.reference.model_id, "model_version": one.reference.version, "fate_model_id": fate_id_of(one),
        "job_id": one.job_id, "initiator_party_id": one.initiator, "roles": dict(one.roles),
        "create_time": max(each.create_time for each in found.models), "tags": [tag.name for tag in found.tags],
        "deployed_as": [each.name for each in found.deployed], "models": [part_as_json(each) for each in found.models],
    }  # fmt: skip


def part_as_json(model: StoredModel) -> dict[str, Any]:
    return {
        "role": model.party.role, "party_id": model.party.party_id, "task_name": model.reference.task,
        "output_key": model.reference.output, "type_name": model.kind, "component": model.component,
        "sha256": model.sha256, "bytes": model.size, "task_version": model.task_version,
    }  # fmt: skip


def tag_as_json(tag: ModelTag) -> dict[str, Any]:
    return {"name": tag.name, "description": tag.description, "create_time": tag.create_time}


def rows_of_fate(found: Found) -> list[dict[str, Any]]:
    """Return a version as FATE v1's clients see it: a row for each seat, and for each deployment of it."""
    by_seat: dict[Party, list[StoredModel]] = {}
    for one in found.models:
        by_seat.setdefault(one.party, []).append(one)
    return [_row(party, models, found) for party, models in by_seat.items()]


def _row(party: Party, models: list[StoredModel], found: Found) -> dict[str, Any]:
    one, named = models[0], found.named
    at = named.create_time if named is not None else max(each.create_time for each in models)
    parent = {"parent_model_id": fate_id_of(one), "parent_model_version": one.reference.model_id}
    return {
        "f_model_id": fate_id_of(one), "f_model_version": named.name if named is not None else one.reference.model_id,
        "f_role": party.role, "f_party_id": party.party_id, "f_roles": dict(one.roles), "f_create_time": at,
        "f_create_date": datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S"),
        "f_size": sum(each.size for each in models), "f_loaded_times": 0, "f_description": "",
        "f_parent": named is None, "f_parent_info": parent if named is not None else {}, "f_job_id": one.job_id,
        "f_components": list(dict.fromkeys(each.reference.task for each in models)),
        "f_store_version": one.reference.version,
    }  # fmt: skip


def filtered(row: Mapping[str, Any], wanted: object) -> dict[str, Any]:
    """Return the columns that a client names, with or without `f_`; all if it names none. Raise BadRequest."""
    if wanted is None:
        return dict(row)
    if not isinstance(wanted, list) or not all(isinstance(one, str) for one in wanted):
        raise BadRequest(f"query_filters: {shown(wanted)} is not a list of names")
    names = {f"f_{one.removeprefix('f_')}" for one in wanted}
    return {key: value for key, value in row.items() if key in names}
