"""Digests of files that are staged. A large file takes long to read, so a request does not wait for its digest."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Lock

from fate_flow.engines.staged.places import StagedFile, file_at

_MOST = 10_000
_ASKED_SECONDS = 60.0
"""What was asked for so recently is kept, however much it is: whoever has got no answer yet asks again, and would find
the first digests gone when the last ones are there."""
_Key = tuple[str, int, int, int, int]


class Digests:
    """Computes digests one after the other; a file that has not changed is not read again."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="digests")
        self._known: OrderedDict[_Key, tuple[Future[StagedFile], float]] = OrderedDict()     # and when it was asked
        self._lock = Lock()

    def of(self, files: Mapping[str, Path], seconds: float) -> list[StagedFile] | None:
        """Return what these files, by place, contain; None if that takes longer. Raises OSError."""
        asked = [(at, self._future(path)) for at, path in files.items()]
        _, missing = wait([future for _, future in asked], timeout=seconds)
        if missing:
            return None
        found = ((at, future.result()) for at, future in asked)
        return [StagedFile(at, one.size, one.sha256, one.mode) for at, one in found]

    def _future(self, path: Path) -> Future[StagedFile]:
        now = path.stat()
        key = (str(path), now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns)
        with self._lock:
            known, _ = self._known.pop(key, (None, 0.0))
            if known is None or (known.done() and known.exception() is not None):
                known = self._pool.submit(file_at, path, "")
            at = self._monotonic()
            self._known[key] = known, at             # the last one
            while len(self._known) > _MOST and next(iter(self._known.values()))[1] < at - _ASKED_SECONDS:
                self._known.popitem(last=False)
        return known
