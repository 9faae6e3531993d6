"""Lines in the log before the last key of a party ends."""

from __future__ import annotations

import logging
from collections.abc import Callable

from fate_flow.core.model.errors import StorageFailed
from fate_flow.services.context.ports import Context
from fate_flow.services.use_cases.key_ends import OwnList, key_warnings

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 60.0
_AGAIN_SECONDS = 24 * 3600.0


class KeyWatch:
    """Writes each warning once a day. `passed` returns seconds from any moment on."""

    def __init__(self, context: Context, own: OwnList, passed: Callable[[], float]) -> None:
        self._context = context
        self._own = own
        self._passed = passed
        self._written: dict[str, float] = {}

    def look(self) -> None:
        now = self._passed()
        self._written = {text: at for text, at in self._written.items() if now - at < _AGAIN_SECONDS}
        try:
            found = key_warnings(self._context, self._own)
        except StorageFailed as error:
            LOG.error("which keys end soon cannot be read: %s", error.message)
            return
        for text in found:
            if text not in self._written:
                self._written[text] = now
                LOG.warning("%s", text)
