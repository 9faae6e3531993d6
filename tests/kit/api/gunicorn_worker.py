"""A worker of gunicorn as the server has them, without processes around it."""

from __future__ import annotations

import json
import os
import selectors
import socket
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

from gunicorn.config import Config
from gunicorn.glogging import Logger

from fate_flow.api.http.gunicorn_worker import CallerLimits, worker_class
from tests.kit.waiting import SECONDS


class GunicornWorker:
    """Serves an application at a free port of this machine, in threads of this process."""

    def __init__(
        self, folder: Path, app: Callable[..., Any], limits: CallerLimits, threads: int, connections: int = 100
    ) -> None:
        cfg = Config()
        for name, value in {
            "threads": threads, "worker_connections": connections, "worker_tmp_dir": str(folder), "keepalive": 75,
            "graceful_timeout": 1,
        }.items():  # fmt: skip
            cfg.set(name, value)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.app: Any = app
        kind = worker_class(lambda status, text: json.dumps([status, text]).encode(), limits)
        self.worker: Any = kind(0, os.getppid(), [self.listener], None, 60, cfg, Logger(cfg))
        self.worker.wsgi = self.app
        self.worker.tpool = self.worker.get_thread_pool()
        self.worker.poller = selectors.DefaultSelector()
        self.worker.method_queue.init()
        self._thread = Thread(target=self.worker.run, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def close(self) -> None:
        self.worker.handle_exit(None, None)
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
