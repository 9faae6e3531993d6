"""`/v1/notification/...`: of what the client that asks is notified (docs/guides/notifications.md)."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from fate_flow.api.http.caller import caller
from fate_flow.api.http.declared import TEXT, a_list, an_object, declared, described, one_of, or_null
from fate_flow.api.http.services import Services
from fate_flow.api.v1.envelope import arguments, ok
from fate_flow.core.access.client_roles import READ
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import shown
from fate_flow.core.notifications.notification import OCCASIONS
from fate_flow.services.notifications.choosing import Choice, choice_of, choose

_EVENTS = a_list(one_of([one.value for one in OCCASIONS]))
_CHOICE = an_object({
    "person": TEXT, "given": described(_EVENTS, "By the configuration."), "chosen": _EVENTS,
    "channels": described(a_list(TEXT), "`email`, or `webhook/` and a name."),
})  # fmt: skip


def blueprint(services: Services) -> Blueprint:
    routes = _NotificationRoutes(services)
    found = Blueprint("notifications", __name__, url_prefix="/v1/notification")
    found.post("/show")(routes.show)
    found.post("/choose")(routes.choose)
    return found


class _NotificationRoutes:
    def __init__(self, services: Services) -> None:
        self._context = services.context

    @declared("Show of what the client that asks is notified.", READ, data=_CHOICE)
    def show(self) -> Response:
        return ok(_shown(choice_of(self._context, caller())))

    @declared(
        "Choose of what the client that asks is notified, among what the configuration gives.", READ,
        takes={"events": described(or_null(_EVENTS), "Default null: of all that the configuration gives.")},
        data=_CHOICE,
    )  # fmt: skip
    def choose(self) -> Response:
        wanted = arguments().get("events")
        if wanted is not None and not (isinstance(wanted, list) and all(isinstance(one, str) for one in wanted)):
            raise BadRequest(f"events: {shown(wanted)} is neither a list of texts nor null")
        return ok(_shown(choose(self._context, caller(), wanted)))


def _shown(found: Choice) -> dict[str, Any]:
    return {
        "person": found.person.name, "given": [one.value for one in found.given],
        "chosen": [one.value for one in found.chosen], "channels": [one.channel for one in found.person.targets],
    }  # fmt: skip
