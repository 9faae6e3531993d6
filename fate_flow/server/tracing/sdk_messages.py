"""What OpenTelemetry's SDK says of a request that failed: it logs the reason, and does not return it."""

from __future__ import annotations

import logging
import threading


class SdkMessages(logging.Handler):
    """Keeps the first message of each thread since `forget`, and shows none of them."""

    def __init__(self) -> None:
        super().__init__()
        self._of_thread = threading.local()

    def emit(self, record: logging.LogRecord) -> None:
        self._of_thread.first = self.first or record.getMessage()

    def forget(self) -> None:
        """Forget what this thread was told."""
        self._of_thread.first = ""

    @property
    def first(self) -> str:
        """Return the first message of this thread; empty if there is none."""
        return getattr(self._of_thread, "first", "")


_MESSAGES = SdkMessages()


def messages_of_sdk() -> SdkMessages:
    """Return what this process hears from the SDK, which is in no log from now on."""
    of_sdk = logging.getLogger("opentelemetry")
    of_sdk.handlers[:], of_sdk.propagate = [_MESSAGES], False
    return _MESSAGES
