"""`/v1/job/parameter/update`: change the parameters of a waiting or finished job (client-api-v1, section 3.1).

All parties are asked first, as in `job/validate`. If one of them would refuse the job or does not answer, nothing
changes anywhere. A plain v1 party cannot be asked; it accepts what it is sent.
"""

from __future__ import annotations

from collections.abc import Mapping

from flask import Blueprint, Response

from fate_flow.api.http.arguments import JOB, read_job_id
from fate_flow.api.http.caller import caller
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
from fate_flow.api.http.paths import check_paths
from fate_flow.api.http.services import Services
from fate_flow.api.http.shapes import PROBLEMS, WARNINGS
from fate_flow.api.v1.envelope import arguments, ok
from fate_flow.api.v1.jobs.explain import REFUSES, stance_of
from fate_flow.api.v1.jobs.submission import ask_parties
from fate_flow.core.access.client_roles import SUBMIT
from fate_flow.core.model.errors import OperationFailed
from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import CONF_PARTS, Party
from fate_flow.core.wire.v1.job_answers import STILL_ENDS
from fate_flow.jobspec.parameters import CHANGEABLE, COMPONENTS, read_change
from fate_flow.jobspec.parameters import JOB as OF_JOB

_SAID = an_object({}, {"common": or_null(FREE), "role": or_null(by_name(or_null(by_name(or_null(FREE)))))})
_CHANGE: Arguments = {
    OF_JOB: described(_SAID, f"Changed values of: {', '.join(CHANGEABLE)}. Null removes a value."),
    COMPONENTS: described(_SAID, "Changed values, by the name of the component."),
}
_NEEDED: tuple[Schema, ...] = tuple({"required": [kind], "properties": {kind: FREE}} for kind in CONF_PARTS)
_CHANGED = an_object({
    **dict.fromkeys(CONF_PARTS, FREE),
    "components": a_list(TEXT, description="The components whose own parameters changed."),
    "warnings": WARNINGS,
}, title="ChangedParameters")  # fmt: skip
_REFUSED: Schema = {"anyOf": [
    PROBLEMS,
    an_object({STILL_ENDS: YES_NO}),
    by_name(by_name(an_object({"retcode": WHOLE, "retmsg": TEXT})), description="The answer of each party."),
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
        "Change the parameters of a waiting or finished job, if every party agrees.", SUBMIT, needs=JOB, takes=_CHANGE,
        either=_NEEDED, data=_CHANGED, refused=_REFUSED,
    )
    def update(self) -> Response:
        body = arguments("job_id")
        job_id, change = read_job_id(body), read_change(body)
        previewed = self._use_cases.jobs.preview_change(job_id, change)
        if previewed.is_change:
            self._use_cases.submits.examine(previewed.spec)
            check_paths(self._services.settings, self._services.context.modules, previewed.spec)
            _check_answers(ask_parties(self._services, previewed.document, previewed.spec, previewed.plain_v1))
        revised = self._use_cases.jobs.change_parameters(job_id, change, previewed.base, caller())
        return ok({
            **revised.spec.changeable_conf, "components": list(revised.components),
            "warnings": list(revised.warnings),
        })


def _check_answers(answers: Mapping[Party, Answer]) -> None:
    """Raise OperationFailed with the name of each party that refuses or does not answer."""
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
