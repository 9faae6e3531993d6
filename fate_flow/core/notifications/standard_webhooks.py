"""Signatures of webhooks as Standard Webhooks 1.0 has them: HMAC-SHA256 over id, time and body."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Mapping, Sequence

from fate_flow.core.model.errors import BadSettings

_PREFIX = "whsec_"
_LEAST, _MOST = 24, 64       # bytes of a secret
_MOST_SECRETS = 2            # the new one and the old one, while receivers change over


def read_secrets(text: str, name: str) -> tuple[bytes, ...]:
    """Return the secrets of a file, one a line. `name`: what to name in an error. Raises BadSettings, which never has
    the text."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not 1 <= len(lines) <= _MOST_SECRETS:
        raise BadSettings(f"{name}: has {len(lines)} lines, not one secret, or two while receivers change over")
    return tuple(_secret(line, name) for line in lines)


def _secret(line: str, name: str) -> bytes:
    try:
        found = b64decode(line.removeprefix(_PREFIX), validate=True) if line.startswith(_PREFIX) else b""
    except (Error, ValueError):
        found = b""
    if not _LEAST <= len(found) <= _MOST:
        raise BadSettings(
            f"{name}: has a line that is not {_PREFIX} and the base64 of {_LEAST} to {_MOST} bytes; "
            f"printf '{_PREFIX}%s\\n' \"$(openssl rand -base64 32)\" makes one"
        )
    return found


def signed_headers(message_id: str, seconds: int, body: bytes, secrets: Sequence[bytes]) -> Mapping[str, str]:
    """Return the headers of a try. `seconds`: its time, since 1970."""
    content = b".".join([message_id.encode(), str(seconds).encode(), body])
    signatures = (b64encode(hmac.digest(secret, content, "sha256")).decode() for secret in secrets)
    return {
        "webhook-id": message_id, "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(f"v1,{one}" for one in signatures),
    }  # fmt: skip
