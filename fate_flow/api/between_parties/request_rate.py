"""How many requests a second each other party may send; the gateway counts those of parties whose key it verifies."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable

from flask import Response, request

from fate_flow.api.between_parties.party_lines import PARTY
from fate_flow.api.between_parties.quota_log import QuotaLog
from fate_flow.api.http.client_auth import is_for_parties
from fate_flow.api.http.party_connection import PLAIN, PROXY, has_proved_key, unproved
from fate_flow.api.http.sender import named_sender
from fate_flow.core.quotas.pace import TokenBucket
from fate_flow.core.quotas.quota import Quotas
from fate_flow.core.wire.v1.envelope import SRC_PARTY_ID
from fate_flow.core.wire.v1.paths import EXCHANGE

_TOO_MANY_REQUESTS = 429
_MESSAGES = f"/v1{EXCHANGE}/"
_AHEAD_SECONDS = 1.0      # commands may take of this next second what messages of workers may not
_MOST_PARTIES = 1000      # that are counted; without signatures, anybody can invent party ids


class RequestRate:
    """The check of each request on a route of other parties, after the one of its sender. Each process of the server
    counts for itself. `clock` returns seconds that only grow."""

    def __init__(self, quotas: Quotas, needs_key: Callable[[str], bool], clock: Callable[[], float]) -> None:
        """`needs_key`: whether requests of this party were accepted only with its signature."""
        self._quotas = quotas
        self._needs_key = needs_key
        self._clock = clock
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()
        self._lock = threading.Lock()
        self._log = QuotaLog(clock)

    def check(self) -> Response | None:
        """Return an answer that refuses the request; None if it may be carried out.

        The status says that nothing was carried out: the sender asks again later, after a growing pause."""
        if request.url_rule is None or not is_for_parties(request.url_rule.rule):
            return None
        party_id = named_sender()
        is_counted, how = has_proved_key(request.environ), unproved(request.environ)
        if is_counted or how == PROXY or (how != PLAIN and self._needs_key(party_id)):
            request.environ[PARTY] = party_id           # proved by a key
        is_command = not request.url_rule.rule.startswith(_MESSAGES)
        if is_counted or self._may_ask(party_id, is_command=is_command):
            return None
        text = self._quotas.too_many_requests(party_id)
        self._log.note(party_id, _TOO_MANY_REQUESTS, text)
        answer = json.dumps({"retcode": _TOO_MANY_REQUESTS, "retmsg": text})
        head = {"Retry-After": "1", SRC_PARTY_ID: self._quotas.own}
        return Response(answer, _TOO_MANY_REQUESTS, head, mimetype="application/json")

    def _may_ask(self, party_id: str, *, is_command: bool) -> bool:
        now = self._clock()
        with self._lock:
            bucket = self._buckets.get(party_id)
            if bucket is None:
                quota = self._quotas.of(party_id)
                bucket = self._buckets[party_id] = TokenBucket(quota.requests_per_second, quota.requests_at_once, now)
                if len(self._buckets) > _MOST_PARTIES:
                    self._buckets.popitem(last=False)
            self._buckets.move_to_end(party_id)
            return bucket.take(now, _AHEAD_SECONDS if is_command else 0.0) is not None
