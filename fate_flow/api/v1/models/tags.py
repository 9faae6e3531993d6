"""`/v1/model/tag/...` and `/v1/model/model_tag/...`: tags of models. FATE's clients name a model by its job."""

from __future__ import annotations

from flask import Blueprint, Response

from fate_flow.api.http.arguments import FLAG, JOB, read_flag, read_job_id, read_text, read_whole, whole
from fate_flow.api.http.caller import caller
from fate_flow.api.http.declared import COUNT, TEXT, a_list, an_object, declared, described
from fate_flow.api.http.services import Services
from fate_flow.api.v1.envelope import arguments, ok
from fate_flow.api.v1.models.arguments import TAG, TAG_NAME, read_tag_name, tag_as_json
from fate_flow.core.access.client_roles import READ, SUBMIT
from fate_flow.core.model.errors import BadRequest, NotFound
from fate_flow.services.use_cases.models import MOST_LISTED, ModelParts

_LONGEST = 4_000
_DESCRIPTION = {"tag_desc": {**TEXT, "maxLength": _LONGEST}}
_TAGS = an_object({"tags": a_list(TAG), "count": COUNT})


def blueprint(services: Services) -> Blueprint:
    routes = _Routes(services)
    tags = Blueprint("model_tags", __name__, url_prefix="/v1/model")
    for path, view in {
        "/tag/create": routes.create, "/tag/retrieve": routes.retrieve, "/tag/update": routes.update,
        "/tag/destroy": routes.destroy, "/tag/list": routes.listed, "/model_tag/create": routes.put,
        "/model_tag/remove": routes.remove, "/model_tag/retrieve": routes.of_model,
    }.items():  # fmt: skip
        tags.add_url_rule(path, view_func=view, methods=["POST"])
    return tags


class _Routes:
    def __init__(self, services: Services) -> None:
        self._models = services.use_cases.models

    @declared("Make a tag for models.", SUBMIT, needs=TAG_NAME, takes=_DESCRIPTION)
    def create(self) -> Response:
        body = arguments("tag_name")
        name = read_tag_name(body)
        self._models.make_tag(name, _description(body), caller())
        return ok(retmsg=f"'{name}' has been created successfully.")

    @declared(
        "Show a tag, and with with_model the models that have it.", READ, needs=TAG_NAME,
        takes={"with_model": described(FLAG, "Whether to name the models, too.")},
        data=an_object({}, {"tags": a_list(TAG), "count": COUNT, "models": a_list(TEXT)}),
    )
    def retrieve(self) -> Response:
        body = arguments("tag_name")
        tag, models = self._models.tag(read_tag_name(body))
        found = {"tags": [tag_as_json(tag)]}
        return ok({**found, "count": len(models), "models": list(models)} if read_flag(body, "with_model") else found)

    @declared(
        "Rename a tag, or describe it anew; it stays on its models.", SUBMIT, needs=TAG_NAME,
        takes={"new_tag_name": TAG_NAME["tag_name"], "new_tag_desc": _DESCRIPTION["tag_desc"]},
    )
    def update(self) -> Response:
        body = arguments("tag_name")
        name = read_tag_name(body)
        new_name = read_tag_name(body, "new_tag_name") if body.get("new_tag_name") is not None else ""
        text = _description(body, "new_tag_desc") if body.get("new_tag_desc") is not None else None
        self._models.change_tag(name, new_name, text, caller())
        return ok(retmsg=f"Infomation of tag '{name}' has been updated successfully.")

    @declared("Remove a tag, also from all models.", SUBMIT, needs=TAG_NAME)
    def destroy(self) -> Response:
        name = read_tag_name(arguments("tag_name"))
        self._models.drop_tag(name, caller())
        return ok(retmsg=f"'{name}' has been deleted successfully.")

    @declared(
        "List tags by name.", READ, takes={"limit": whole("The most tags.", 1, MOST_LISTED, 10)}, data=_TAGS,
    )
    def listed(self) -> Response:
        tags = self._models.tags(read_whole(arguments(), "limit", 10, 1, MOST_LISTED))
        return ok({"tags": [tag_as_json(one) for one in tags], "count": len(tags)})

    @declared("Put a tag on the model of a job; the tag is made if there is none.", SUBMIT, needs=JOB | TAG_NAME)
    def put(self) -> Response:
        body = arguments("job_id", "tag_name")
        name, job_id = read_tag_name(body), read_job_id(body)
        self._models.tag_model(name, job_id, caller())
        return ok(retmsg=f"Adding {name} for model with job id: {job_id} successfully.")

    @declared("Remove a tag from the model of a job.", SUBMIT, needs=JOB | TAG_NAME)
    def remove(self) -> Response:
        body = arguments("job_id", "tag_name")
        name, job_id = read_tag_name(body), read_job_id(body)
        self._models.untag_model(name, job_id, caller())
        return ok(retmsg=f"Removing tag {name} for model with job id: {job_id} successfully.")

    @declared("List the tags of the model of a job.", READ, needs=JOB, data=_TAGS)
    def of_model(self) -> Response:
        job_id = read_job_id(arguments("job_id"))
        try:
            tags = self._models.found(ModelParts(version=job_id)).tags
        except NotFound as error:
            raise NotFound(f"{error.message}: job {job_id} has stored none here") from error
        return ok({"tags": [tag_as_json(one) for one in tags], "count": len(tags)})


def _description(body: dict[str, object], key: str = "tag_desc") -> str:
    text = read_text(body, key)
    if len(text) > _LONGEST:
        raise BadRequest(f"{key}: has {len(text)} characters; {_LONGEST} is the most")
    return text
