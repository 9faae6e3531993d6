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


_FAULTS = """
import os, resource, sys
from fate_flow.engines.local import proc

blocks = [bytearray(2_000) for _ in range(4_000)]     # 8 MB of the heap
del blocks[::2]                                       # 2,000 places for blocks like these, on a page each
if sys.argv[1] == "settle":
    proc.settle_memory()
if pid := os.fork():
    os.waitpid(pid, 0)
else:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    more = [bytearray(2_000) for _ in range(1_000)]   # 2 MB: 500 pages, if they lie side by side
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def pages_written(how: str) -> int:
    """How many pages a fork writes to when it makes a thousand objects."""
    command = [sys.executable, "-c", _FAULTS, how]
    return int(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc fills a heap like this")
def test_a_fork_of_settled_memory_makes_its_objects_side_by_side() -> None:
    """They do not lie between objects of the process that it shares memory with, whose pages it would then copy."""
    assert pages_written("settle") < 800 < pages_written("leave")
