"""The log files of a built-in component: whatever becomes of them, the component goes on.

The configuration of a worker names `logging.handlers.WatchedFileHandler`, which every provider has
(docs/reference/contracts.md). That handler raises when it cannot reopen its file, and `log.info` in the component would
raise it again.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from contextlib import suppress
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any

_WATCHED = "logging.handlers.WatchedFileHandler"


class LastingFileHandler(WatchedFileHandler):
    """Follows its file, and makes it and its folder again when they are gone.

    What cannot be written is dropped: stderr hears of it once, the component never."""

    _is_noted = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except (OSError, ValueError):       # the latter of a stream that could not even be closed
            self._let_go()
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the name that `logging` calls
        if isinstance(sys.exception(), OSError):
            if self._is_noted:
                return
            self._is_noted = True
        super().handleError(record)

    def _open(self) -> TextIOWrapper:
        try:
            return super()._open()
        except FileNotFoundError:
            Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True)
            return super()._open()

    def _let_go(self) -> None:
        """The next record opens the file anew."""
        stream, self.stream = self.stream, None
        if stream is not None:
            with suppress(OSError, ValueError):
                stream.close()


def with_lasting_files(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same `dictConfig`, with files that a component survives. Raises what is no such configuration."""
    handlers = {name: _lasting(one) for name, one in config.get("handlers", {}).items()}
    return {**config, "handlers": handlers}


def _lasting(handler: Mapping[str, Any]) -> dict[str, Any]:
    is_watched = handler.get("class") == _WATCHED
    return {**handler, "class": f"{__name__}.{LastingFileHandler.__name__}"} if is_watched else {**handler}
