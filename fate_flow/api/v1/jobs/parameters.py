"""`/v1/job/parameter/update`: other parameters for a job that waits or is over (client-api-v1, section 3.1).

All parties are asked first, as by `job/validate`; where one of them would not take part, or does not answer, nothing
is changed anywhere. A plain v1 party cannot be asked, and takes what it is told.
"""

from __future__ import annotations

from collections.abc import Mapping

from flask import Blueprint, Response

from fate_flow.api.http.arguments import JOB, read_job_id
from fate_flow.api.http.declared import (
    FREE,
    TEXT,
    WHOLE,
    YES_NO,
    Arguments,
    Schema,
    a_list,
    an_object,
    by_name,
    declared,
    described,
    or_null,
)
from fate_flow.api.http.envelope import arguments, ok
from fate_flow.api.http.paths import check_paths
from fate_flow.api.http.services import Services
from fate_flow.api.http.shapes import PROBLEMS, WARNINGS
from fate_flow.api.v1.jobs.explain import REFUSES, stance_of
from fate_flow.api.v1.jobs.submission import ask_parties
from fate_flow.core.model.errors import OperationFailed
from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import CONF_PARTS, Party
from fate_flow.core.planning.replies import STILL_ENDS
from fate_flow.jobspec.parameters import CHANGEABLE, COMPONENTS, read_change
from fate_flow.jobspec.parameters import JOB as OF_JOB

_SAID = an_object({}, {"common": or_null(FREE), "role": or_null(by_name(or_null(by_name(or_null(FREE)))))})
_CHANGE: Arguments = {
    OF_JOB: described(_SAID, f"What is to be otherwise, of: {', '.join(CHANGEABLE)}. Null takes back what was said."),
    COMPONENTS: described(_SAID, "What is to be otherwise, by the name of the component."),
}
_NEEDED: tuple[Schema, ...] = tuple({"required": [kind], "properties": {kind: FREE}} for kind in CONF_PARTS)
_CHANGED = an_object({
    **dict.fromkeys(CONF_PARTS, FREE),
    "components": a_list(TEXT, description="Those whose own parameters are others now."),
    "warnings": WARNINGS,
}, title="ChangedParameters")  # fmt: skip
_REFUSED: Schema = {"anyOf": [
    PROBLEMS,
    an_object({STILL_ENDS: YES_NO}),
    by_name(by_name(an_object({"retcode": WHOLE, "retmsg": TEXT})), description="What each party said."),
]}  # fmt: skip


def blueprint(services: Services) -> Blueprint:
    routes = _ParameterRoutes(services)
    parameters = Blueprint("parameters", __name__, url_prefix="/v1/job/parameter")
    parameters.post("/update")(routes.update)
    return parameters


class _ParameterRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._use_cases = services.use_cases

    @declared(
        "A job that waits or is over has other parameters, once every party agrees to them.", needs=JOB, takes=_CHANGE,
        either=_NEEDED, data=_CHANGED, refused=_REFUSED,
    )
    def update(self) -> Response:
        body = arguments("job_id")
        job_id, change = read_job_id(body), read_change(body)
        previewed = self._use_cases.jobs.preview_change(job_id, change)
        if previewed.is_change:
            self._use_cases.submits.examine(previewed.document)
            check_paths(self._services.settings, previewed.spec)
            _check_answers(ask_parties(self._services, previewed.document, previewed.spec, previewed.plain_v1))
        revised = self._use_cases.jobs.change_parameters(job_id, change, previewed.base)
        return ok({
            **revised.spec.changeable_conf, "components": list(revised.components),
            "warnings": list(revised.warnings),
        })


def _check_answers(answers: Mapping[Party, Answer]) -> None:
    """Raises OperationFailed naming each party that does not take part, or says nothing."""
    against = {
        party: answer for party, answer in answers.items() if answer.is_silence or stance_of(answer)[0] == REFUSES
    }
    if not against:
        return
    text = "; ".join(f"{party}: {answer.retmsg}" for party, answer in against.items())
    refusals: dict[str, dict[str, dict[str, object]]] = {}
    for party, answer in answers.items():
        refusals.setdefault(party.role, {})[party.party_id] = {"retcode": answer.retcode, "retmsg": answer.retmsg}
    raise OperationFailed(f"nothing was changed: {text}", data=refusals)
