"""What other parties are told about errors, in FATE's envelope (reference: party-api-v1)."""

from __future__ import annotations

from fate_flow.api.http.request_origin import FORBIDDEN, OtherSite
from fate_flow.api.http.unread import BrokenBody, LateBody
from fate_flow.api.v1.envelope import RetcodeEnvelope
from fate_flow.core.model.errors import Busy, StorageFailed

PARTIES = RetcodeEnvelope({Busy: 503, StorageFailed: 500, OtherSite: FORBIDDEN, BrokenBody: 400, LateBody: 408})
"""A party asks again after 500 and 503; a `retcode` with HTTP status 200 is the answer to its statement."""
