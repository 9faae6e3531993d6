"""The threads of a server share the memory that they have used."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

_COUNT = """
import ctypes, sys, threading
from fate_flow.engines.local import proc

if sys.argv[1] == "share":
    proc.share_arenas()
barrier = threading.Barrier(6)
def use():
    barrier.wait()
    ctypes.CDLL(None).malloc(1000)
    barrier.wait()
threads = [threading.Thread(target=use) for _ in range(6)]
for one in threads: one.start()
for one in threads: one.join()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
stream = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, stream)
libc.fflush(stream)
"""


def arenas(how: str, **environment: str) -> int:
    """How many arenas six threads of a new process take their memory from."""
    kept = {key: value for key, value in os.environ.items() if key != "MALLOC_ARENA_MAX"}
    found = subprocess.run(
        [sys.executable, "-c", _COUNT, how], env=kept | environment, check=True, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip
    return found.stdout.count("<heap nr=")


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_info"), reason="only glibc has arenas")
def test_threads_of_a_server_take_memory_from_two_arenas_unless_the_operator_says_otherwise() -> None:
    assert arenas("share") == 2
    assert arenas("leave") > 2
    assert arenas("share", MALLOC_ARENA_MAX="4") == 4
