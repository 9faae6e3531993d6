"""Keep a warm process of each provider, which has imported everything and forks workers.

Workers do without it: one that finds no warm process imports what it needs itself.
"""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fate_flow.components.providers.described import description_file, warm_socket
from fate_flow.components.providers.external import ExternalProvider
from fate_flow.components.providers.provider import PACKAGE
from fate_flow.core.model.modules import ProviderPlace
from fate_flow.server.periodic.periodic_work import END_SECONDS, PeriodicWork

LOG = logging.getLogger(__name__)

WARM = PACKAGE / "components" / "provider_process" / "warm.py"
LOOK_SECONDS = 2.0
_AGAIN_SECONDS = 60.0
"""After the start of one that has ended by itself."""


@dataclass
class _Running:
    process: subprocess.Popen[bytes]
    of: int                     # the time of the description that it was started for
    began: float
    is_end_noted: bool = False


class WarmProviders(PeriodicWork):
    """A thread that starts the warm processes, and starts them again. They end with it."""

    def __init__(
        self, places: Mapping[str, ProviderPlace], folder: Path, logs: Path, close: Callable[[], None],
        passed: Callable[[], float] = time.monotonic,
    ) -> None:
        """`folder`: with the descriptions, and for the sockets; `logs`: for what the processes print; `passed` returns
        seconds from any moment on. The thread calls `close` at its end."""
        failure = "warm processes of providers could not be looked at"
        super().__init__("warm providers", failure, close, again=LOOK_SECONDS)
        self._providers = [ExternalProvider(one, folder) for one in places.values() if one.is_kept_warm]
        self._folder, self._logs, self._passed = folder, logs, passed
        self._running: dict[str, _Running] = {}

    def step(self) -> float:
        for provider in self._providers:
            if not self._is_over.is_set():
                self.look(provider)
        return LOOK_SECONDS

    def stop(self, seconds: float = END_SECONDS) -> None:
        super().stop(seconds)
        for one in self._running.values():
            one.process.kill()
            one.process.wait()

    def look(self, provider: ExternalProvider) -> None:
        """Start the process of a provider that has none, once its components are described."""
        if not provider.state.is_ready:
            return
        of = description_file(self._folder, provider.place).stat().st_mtime_ns
        running = self._running.get(provider.name)
        if running is not None and not self._is_to_be_replaced(provider, running, of):
            return
        if running is not None:
            running.process.kill()
            running.process.wait()
        self._start(provider, of)

    def _is_to_be_replaced(self, provider: ExternalProvider, running: _Running, of: int) -> bool:
        if running.of != of:             # its environment has changed
            return True
        if running.process.poll() is None:
            return False
        if not running.is_end_noted:
            running.is_end_noted = True
            LOG.warning("the warm process of %s has ended; workers start without it", provider.name)
        return self._passed() - running.began >= _AGAIN_SECONDS

    def _start(self, provider: ExternalProvider, of: int) -> None:
        place, path = provider.place, warm_socket(self._folder, provider.place)
        # Not with `nice`: workers are forked from it, and could not take that back.
        argv = (place.python, "-I", str(WARM), place.module, str(path))
        with (self._logs / f"{place.name}.log").open("ab") as output:
            process = subprocess.Popen(      # its input ends with this process
                argv, cwd=self._folder, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True
            )
        self._running[place.name] = _Running(process, of, self._passed())
