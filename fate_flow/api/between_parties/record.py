"""The routes of a witness: what peers send and ask about their own logs with this party."""

from __future__ import annotations

import logging
from http import HTTPStatus

from flask import Blueprint, Response, request

from fate_flow.api.http.services import Services
from fate_flow.api.v1.envelope import ok, silent_json
from fate_flow.core.access.authority import Query, Said, objection
from fate_flow.core.model.errors import BadSettings, NotFound, PermissionDenied
from fate_flow.core.model.grammar import check_party_id
from fate_flow.core.record.proof import LONGEST_PROOF
from fate_flow.core.wire.v1.envelope import SRC_PARTY_ID
from fate_flow.core.wire.v1.paths import ADD_CHECKPOINT, HELD, RECORD_LOG
from fate_flow.core.wire.v1.witnessing import QUESTION, SIZE_TYPE, asked_held, asked_part
from fate_flow.peers.key_changes import WitnessKey
from fate_flow.peers.site_key import has_signed
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.services.witnesses.handed_out import part_of_log
from fate_flow.services.witnesses.witnessing import Witness, Witnessing

LOG = logging.getLogger(__name__)


def blueprint(services: Services) -> Blueprint:
    own, witnessing = services.settings.party_id, witnessing_of(services)
    record = Blueprint("record", __name__, url_prefix="/v1")

    @record.post(ADD_CHECKPOINT)
    def add_checkpoint() -> Response:
        """Cosign a checkpoint of the caller's log with this party: C2SP tlog-witness, authenticated as every request
        between parties is."""
        caller = _caller(own)
        text = request.get_data()[: LONGEST_PROOF + 1].decode(errors="replace")      # is refused where it is read
        reply = witnessing.add_checkpoint(caller, text, request.headers.get(QUESTION, ""))
        is_size = reply.status == HTTPStatus.CONFLICT
        return Response(reply.text, reply.status, content_type=SIZE_TYPE if is_size else "text/plain; charset=utf-8")

    @record.post(HELD)
    def held() -> Response:
        """Return the newest checkpoints that are held here of the caller's logs with this party."""
        found = witnessing.held_of(_caller(own), asked_held(silent_json()))
        if not found.notes and not services.context.keeps_record:
            raise NotFound(f"party {own} is no witness")
        return ok(found.as_data())

    @record.post(RECORD_LOG)
    def log() -> Response:
        """Return a part of what this party has signed in the log that it keeps with the caller, for a comparison."""
        caller, asked = _caller(own), asked_part(silent_json())
        return ok(services.context.read(lambda tx: part_of_log(tx, caller, asked)).as_data())

    @record.after_request
    def named(response: Response) -> Response:
        response.headers[SRC_PARTY_ID] = own
        return response

    return record


def witnessing_of(services: Services) -> Witnessing:
    """Return what cosigns for this server."""
    key = WitnessKey(services.settings.keys_dir)

    def witness() -> Witness | None:
        try:
            found = key(now_on_the_wall())
        except BadSettings as error:
            LOG.error("this party cannot cosign records of others: %s", error.message)
            return None
        return Witness.of(found[0], found[1].public.raw, found[1].sign) if found else None

    return Witnessing(services.context, witness, has_signed)


def _caller(own: str) -> str:
    """Return the party that asks. Raises PermissionDenied."""
    caller = check_party_id(request.headers.get(SRC_PARTY_ID, ""))
    if why := objection(Said(Query.RECORD, caller, own), None):
        raise PermissionDenied(why)
    return caller
