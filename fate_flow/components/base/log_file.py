"""The log files of a built-in component: an error with them must not stop the component.

The configuration of a worker names `logging.handlers.WatchedFileHandler`, which every provider has
(docs/reference/contracts.md). That handler raises if it cannot reopen its file, and then `log.info` in the component
would raise, too.
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
    """Follows its file, and makes the file and its folder again if they are gone.

    Lines that cannot be written are dropped, with one message on stderr and no error for the component."""

    _is_noted = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except (OSError, ValueError):       # ValueError: the stream could not even be closed
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
        """Close the file; the next record opens it again."""
        stream, self.stream = self.stream, None
        if stream is not None:
            with suppress(OSError, ValueError):
                stream.close()


def with_lasting_files(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `dictConfig` with file handlers that do not stop a component.

    Raises AttributeError, TypeError or ValueError if it is not such a configuration."""
    handlers = {name: _lasting(one) for name, one in config.get("handlers", {}).items()}
    return {**config, "handlers": handlers}


def _lasting(handler: Mapping[str, Any]) -> dict[str, Any]:
    is_watched = handler.get("class") == _WATCHED
    return {**handler, "class": f"{__name__}.{LastingFileHandler.__name__}"} if is_watched else {**handler}
