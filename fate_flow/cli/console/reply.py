"""A server's reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ServerReply:
    """The HTTP status and the envelope that answer one call."""

    status: int
    envelope: Mapping[str, Any]
    retry_after_seconds: float | None = None    # set if the server is too busy for the request

    @property
    def is_success(self) -> bool:
        return self.status < 400 and self.envelope.get("retcode") == 0

    @property
    def data(self) -> Any:
        return self.envelope.get("data")

    @property
    def message(self) -> str:
        return str(self.envelope.get("retmsg") or f"HTTP {self.status}")
