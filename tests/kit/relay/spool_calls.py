"""A spool, and its calls in short."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fate_flow.relay.spool import Spool, SpoolLimits
from fate_flow.relay.spool_result import Refusal, Stored
from fate_flow.relay.spool_session import Session

BLOCK = 4096
GUEST, HOST, ARBITER = ("guest", "9999"), ("host", "10000"), ("arbiter", "9999")
PEERS = (GUEST, HOST)
NEW, AGAIN = Stored(new=True), Stored(new=False)


def a_session(**fields: object) -> Session:
    known = {"job_id": "20260101120000", "task_id": "20260101120000_psi_0", "version": 0, "incarnation": "a1b2c3d4",
             "role": "host", "party_id": "10000"}
    return Session(**(known | fields))  # type: ignore[arg-type]


HERE = a_session()


def a_spool(root: Path, wake: Callable[[], None] = lambda: None, **limits: int) -> Spool:
    return Spool(root, SpoolLimits(**limits), wake)


def push(spool: Spool, seq: int, data: bytes = b"", topic: str = "t", last: bool = True) -> object:
    result = spool.put(HERE, topic, GUEST, seq, last, data or b"chunk %d" % seq)
    return result.problem if isinstance(result, Refusal) else result


def pop(spool: Spool, seq: int, topic: str = "t", wait_seconds: float = 0.0) -> object:
    found = spool.get(HERE, topic, GUEST, seq, wait_seconds)
    if isinstance(found, Refusal):
        return found.problem
    return found.data if found else None


def peek(spool: Spool, seq: int) -> object:
    found = spool.peek(HERE, "t", GUEST, seq)
    if isinstance(found, Refusal):
        return found.problem
    return found.data if found else None


def chunks(spool: Spool) -> list[str]:
    """The files of chunks on disk."""
    return sorted(path.name.split(".")[1] for path in Path(spool._root, "sessions").glob("*/*/*.*"))


def total(spool: Spool) -> int:
    return int.from_bytes(Path(spool._root, "total").read_bytes(), "little")
