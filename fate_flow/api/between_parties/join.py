"""The route of parties that join by an invitation. They are strangers: their message has to prove everything."""

from __future__ import annotations

import logging

from flask import Blueprint, Response, request

from fate_flow.api.http.party_connection import address_of, stranger_saw
from fate_flow.api.http.services import Services
from fate_flow.api.v1.envelope import ok, silent_json
from fate_flow.core.access.joining import JOIN
from fate_flow.core.model.errors import BadRequest, BadSettings, Conflict, FlowError, NotFound, PermissionDenied
from fate_flow.core.wire.v1.envelope import SRC_PARTY_ID
from fate_flow.peers.invitations import Invitations
from fate_flow.peers.joining import InvitingSide, Joining
from fate_flow.peers.own_keys import OwnKeys
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.services.use_cases.joining import save_joined_party

LOG = logging.getLogger(__name__)


def blueprint(services: Services) -> Blueprint:
    settings, context = services.settings, services.context
    own = OwnKeys(settings.party_id, settings.keys_dir, settings.private_key, now_on_the_wall)
    invitations = Invitations(settings.invitations_dir, now_on_the_wall)
    side = InvitingSide(settings.party_id, invitations, own.signed_list, now_on_the_wall)
    joining = Blueprint("joining", __name__, url_prefix="/v1")

    @joining.post(JOIN)
    def join() -> Response:
        """Let a party join that proves that it knows the secret of an open invitation. Raises FlowError."""
        tls_key = stranger_saw(request.environ)
        if tls_key is None:
            raise NotFound("parties join over the gateway (parties.listen), without a certificate")
        text = silent_json().get("text")
        if not isinstance(text, str):
            raise BadRequest("join: text is missing")
        try:
            return ok({"text": side.answer(text, tls_key, save)})
        except BadSettings as error:
            LOG.error("nobody can join: %s", error.message)
            raise FlowError("this server cannot use its keys or invitations; its log says why") from error
        except (PermissionDenied, Conflict) as error:
            LOG.warning("%s could not join: %s", address_of(request.environ), error.message)
            raise

    @joining.after_request
    def named(response: Response) -> Response:
        response.headers[SRC_PARTY_ID] = settings.party_id
        return response

    def save(found: Joining) -> None:
        save_joined_party(context, found.party, found.keys, found.signed, found.root_id)

    return joining
