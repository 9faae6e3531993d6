"""Ask providers with a Python of their own for the descriptions of their components, once for each version.

FATE's 25 descriptions take ten seconds of a processor, in one process. Nothing waits for it: a job that names such a
component is refused until then. Descriptions are read again when the environment of the Python has changed.
"""

from __future__ import annotations

import json
import logging
import math
import os
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from fate_flow.components.providers.described import FORMAT, description_file
from fate_flow.components.providers.provider import PACKAGE
from fate_flow.core.model.modules import ProviderPlace
from fate_flow.core.text.os_errors import os_error_text
from fate_flow.engines.local.worker import write_atomically
from fate_flow.server.periodic.periodic_work import PeriodicWork

LOG = logging.getLogger(__name__)

DESCRIBE = PACKAGE / "components" / "provider_process" / "describe.py"
AGAIN_SECONDS = 60.0
_LONGEST_SECONDS = 600.0
_LATE_AGAIN_SECONDS = 600.0      # after a description that took too long
_LONGEST_OUTPUT = 2_000
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Describer(PeriodicWork):
    """A thread that writes the files that `components/providers/described.py` reads."""

    def __init__(self, places: Mapping[str, ProviderPlace], folder: Path, close: Callable[[], None]) -> None:
        """`folder`: for the files; the thread calls `close` at its end."""
        super().__init__("describer", "providers could not be asked for their components", close, again=AGAIN_SECONDS)
        self._places, self._folder = places, folder
        self._tried: dict[str, object] = {}
        self._late: dict[str, float] = {}        # provider -> when it is asked again, by the monotonic clock
        self._process: subprocess.Popen[bytes] | None = None

    def step(self) -> float:
        for place in self._places.values():
            if not self._is_over.is_set():
                self.look(place)
        return AGAIN_SECONDS

    def end(self) -> None:
        self._is_over.set()
        process = self._process
        if process is not None:
            process.kill()
        super().end()

    def look(self, place: ProviderPlace) -> None:
        """Describe the provider, unless its file says what this environment has said.

        A failure is tried again after a start of the server, and when the environment has changed. One that took too
        long, as on a busy machine, is also tried again after a while."""
        now, file = environment_of(place), description_file(self._folder, place)
        said = _read(file)
        is_known = said.get("format") == FORMAT and said.get("environment") == now
        is_tried = self._tried.get(place.name) == now and time.monotonic() < self._late.get(place.name, math.inf)
        if is_known and ("why" not in said or is_tried):
            return
        self._late.pop(place.name, None)
        found = self._described(place, file.with_name(f".{file.name}.said"))
        if self._is_over.is_set():
            return
        # Looked at afterwards: the first imports of an environment may write compiled files into it.
        now = self._tried[place.name] = environment_of(place)
        write_atomically(file, json.dumps({"format": FORMAT, "environment": now, **found}), is_durable=False)
        if why := found.get("why"):
            LOG.error("providers.%s.%s", place.name, why)
        else:
            LOG.info("%s components of %s %s are described", len(found["components"]), place.name, place.version)

    def _described(self, place: ProviderPlace, draft: Path) -> dict[str, Any]:
        """Return what the provider says: its components as FATE 2 describes them, or `why` there are none."""
        draft.parent.mkdir(mode=0o700, exist_ok=True)
        # Not with `nice`: on a busy machine that took longer than the limit.
        argv = (place.python, "-I", str(DESCRIBE), place.module, place.version, str(draft))
        try:
            output = self._output_of(argv, draft.parent)
            return self._parsed(place, draft, output[-_LONGEST_OUTPUT:].decode("utf-8", "replace"))
        except subprocess.TimeoutExpired:
            self._late[place.name] = time.monotonic() + _LATE_AGAIN_SECONDS
            late = f"did not describe its components in {_LONGEST_SECONDS:.0f} s"
            return {"why": f"module: {place.module} {late}; it is asked again {_LATE_AGAIN_SECONDS:.0f} s later"}
        except OSError as error:
            return {"why": f"python: {place.python} cannot be started: {os_error_text(error)}"}
        finally:
            draft.unlink(missing_ok=True)

    def _output_of(self, argv: tuple[str, ...], folder: Path) -> bytes:
        """Run the command to its end; `stop` kills it. Raises OSError or TimeoutExpired."""
        with subprocess.Popen(
            argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            self._process = process
            if self._is_over.is_set():       # `end` may have come before it could see the process
                process.kill()
            try:
                return process.communicate(timeout=_LONGEST_SECONDS)[0]
            finally:
                self._process = None
                process.kill()           # nothing, if it has ended

    def _parsed(self, place: ProviderPlace, draft: Path, output: str) -> dict[str, Any]:
        said = _read(draft)
        if "why" in said or not said:
            if output and not self._is_over.is_set():
                LOG.error("%s %s has printed:\n%s", place.name, place.version, output)
            return {"why": said.get("why") or "python: it ended without an answer; the server's log has its output"}
        try:
            components = {
                name: yaml.load(text, _Loader)["component"]      # noqa: S506  # a safe loader
                for name, text in said["components"].items()
            }
            json.dumps(components)
        except (yaml.YAMLError, LookupError, TypeError, ValueError) as error:
            return {"why": f"module: the descriptions of its components cannot be read: {type(error).__name__}"}
        return {"version": said["version"], "python": said["python"], "components": components}


def environment_of(place: ProviderPlace) -> list[Any]:
    """Return what differs when another Python, or other packages, are behind the same path."""
    python = Path(place.python)
    looked_at = [python, python.parent.parent / "pyvenv.cfg"]
    looked_at += sorted(python.parent.parent.glob("lib/python3*/site-packages"))
    return [place.python, place.module, *(_stamp(path) for path in looked_at)]


def _stamp(path: Path) -> list[int]:
    with suppress(OSError):
        status = os.stat(path)
        return [status.st_ino, status.st_mtime_ns]
    return []


def _read(file: Path) -> dict[str, Any]:
    """Return the object in a file; an empty one if there is no such file, or another content."""
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}
