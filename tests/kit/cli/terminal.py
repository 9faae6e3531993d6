"""`flow` on a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


def on_a_terminal(stub, *arguments, stream="stdout", cwd=None, columns=80, term="xterm"):
    """What is shown there, when this stream leads there, and what comes of the other one; it has to succeed."""
    flow = [str(Path(sys.executable).with_name("flow")), "--server", stub.url, *arguments]
    ours, its = pty.openpty()
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: its}
    environment = {**os.environ, "TERM": term, "COLUMNS": str(columns)}
    with subprocess.Popen(flow, stdin=subprocess.DEVNULL, cwd=cwd, env=environment, **streams) as process:
        os.close(its)
        shown = b"".join(_until_the_end(ours)).decode()
        out, err = process.communicate(timeout=180)
    os.close(ours)
    assert process.returncode == 0, (shown, out, err)
    return shown, (err if stream == "stdout" else out).decode()


def _until_the_end(terminal: int) -> Iterator[bytes]:
    """Linux says EIO when nobody has the other side open any more."""
    while True:
        try:
            yield os.read(terminal, 65536)
        except OSError:
            return
