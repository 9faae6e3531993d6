"""Whether a request of a worker on another host shows a token, before its body is read."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable

from fate_flow.api.workers.staged import claim_token, staged_token

_STAGED = re.compile(r"/v1/staged/([^/?]+)[/?]")
_MOST_KNOWN = 4096


class WorkerTokens:
    """The tokens of sessions of the exchange and of agents.

    Only the application knows whether a token still counts, and it is asked in any case: this spares it the bodies of
    callers who never had one. `is_session`: whether a token is that of a session, running or ended; `secret`: that of
    the tokens of agents."""

    def __init__(self, is_session: Callable[[str], bool], secret: bytes) -> None:
        self._is_session = is_session
        self._secret = secret
        self._known: dict[tuple[str, str], None] = {}

    def knows(self, target: str, authorization: str) -> bool:
        """Return whether this header shows a token for this target. True if that cannot be read from the disk."""
        staged = _STAGED.match(target)
        key = staged[1] if staged is not None else "", authorization.removeprefix("Bearer ").strip()
        if key in self._known:
            return True
        try:
            if not self._is_one(*key):
                return False
        except OSError:
            return True
        while len(self._known) >= _MOST_KNOWN:
            self._known.pop(next(iter(self._known)))
        self._known[key] = None
        return True

    def _is_one(self, worker_id: str, token: str) -> bool:
        if worker_id:
            tokens = (make(self._secret, worker_id).encode() for make in (staged_token, claim_token))
            return any(hmac.compare_digest(token.encode(), one) for one in tokens)
        return bool(token) and self._is_session(token)
