"""What asks other parties while somebody waits."""

from __future__ import annotations

from collections.abc import Callable

from fate_flow.core.metrics.measures import Measures
from fate_flow.peers.inquiry import ANSWER_SECONDS, Inquirer
from fate_flow.peers.peer_http import OnRequest
from fate_flow.peers.pinned import PinnedParties
from fate_flow.peers.signature import SiteSignature
from fate_flow.server.other_parties.party_routes import RouteUrls
from fate_flow.services.participant.call_back import CallBack
from fate_flow.settings.settings import Settings

_CALL_BACK_SECONDS = 3.0         # the longest time that a party delays its answer to `create`


def inquirer_of(
    settings: Settings, signature: SiteSignature | None, pinned: PinnedParties, measures: Measures | None = None,
    seconds: float = ANSWER_SECONDS, on_request: OnRequest | None = None,
) -> Inquirer:  # fmt: skip
    """Return what asks other parties for clients; `seconds`: how long it waits for an answer. `on_request` is called
    after each request."""
    ca_files = {party_id: route.ca_file for party_id, route in settings.routes.items() if route.ca_file}
    return Inquirer(
        settings.party_id, RouteUrls(settings.routes), seconds, signature, ca_files, pinned, settings.dialed_socket,
        measures, on_request,
    )  # fmt: skip


def call_back_of(
    settings: Settings, signature: SiteSignature | None, pinned: PinnedParties, measures: Measures,
    is_silent: Callable[[str], bool], on_request: OnRequest | None = None,
) -> CallBack:  # fmt: skip
    """Return the check whether an initiator can be reached; `is_silent`: as `CallBack`."""
    caller = inquirer_of(settings, signature, pinned, measures, _CALL_BACK_SECONDS, on_request)
    return CallBack(caller.why_unreached, is_silent, call_backs_at_once(settings.http_threads))


def waiting_at_once(http_threads: int) -> int:
    """Return how many handlers of a process may wait for other parties to accept a submit.

    One more than those that call back stays free, since a party that is asked to accept calls back."""
    return max(1, min(http_threads * 3 // 4, http_threads - call_backs_at_once(http_threads) - 1))


def call_backs_at_once(http_threads: int) -> int:
    """Return how many handlers of a process may call back an initiator, which may never answer."""
    return max(1, min(4, http_threads // 8))
