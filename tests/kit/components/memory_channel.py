"""An exchange in memory that remembers all that crossed it, and parties that run side by side on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import TypeVar

from fate_flow.components.tables.table import Schema, TableWriter
from fate_flow.components.tables.table_uri import format_uri
from fate_flow.components.worker.task import Outcome, TaskContext
from fate_flow.core.model.spec import Party

GUEST = Party("guest", "9999")
HOSTS = tuple(Party("host", str(10000 + index)) for index in range(3))
PATIENCE_SECONDS = 120

T = TypeVar("T")


@dataclass(frozen=True)
class Letter:
    topic: str
    frm: Party
    to: Party
    message: bytes


@dataclass
class MemoryExchange:
    letters: list[Letter] = field(default_factory=list)
    _queues: dict[tuple[str, Party, Party], SimpleQueue[bytes]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def queue(self, topic: str, frm: Party, to: Party) -> SimpleQueue[bytes]:
        with self._lock:        # who pushes and who pops may both be the first to ask
            return self._queues.setdefault((topic, frm, to), SimpleQueue())

    def channel_of(self, me: Party) -> MemoryChannel:
        return MemoryChannel(self, me)

    def received_by(self, party: Party) -> list[Letter]:
        return [letter for letter in self.letters if letter.to == party]


@dataclass
class MemoryChannel:
    exchange: MemoryExchange
    me: Party

    def push(self, topic: str, to: Party, message: bytes) -> None:
        self.exchange.letters.append(Letter(topic, self.me, to, message))
        self.exchange.queue(topic, self.me, to).put(message)

    def pop(self, topic: str, frm: Party) -> bytes:
        return self.exchange.queue(topic, frm, self.me).get(timeout=PATIENCE_SECONDS)

    def release(self, topic: str, frm: Party) -> None:
        self.exchange._queues.pop((topic, frm, self.me), None)


def side_by_side(parts: Mapping[Party, Callable[[], T]]) -> dict[Party, T]:
    """What each party came to, all of them running at the same time; raises what one of them raised."""
    with ThreadPoolExecutor(max_workers=len(parts)) as pool:
        running = {party: pool.submit(part) for party, part in parts.items()}
        return {party: future.result(timeout=PATIENCE_SECONDS * 2) for party, future in running.items()}


def a_table(
    data_dir: Path, name: str, rows: Sequence[Sequence[str]], header: Sequence[str] = (), namespace: str = "demo"
) -> str:
    uri = format_uri(data_dir, namespace, name)
    with TableWriter(uri, Schema(tuple(header))) as writer:
        writer.add(rows)
    return uri


def a_task(component: str, me: Party, parties: Sequence[Party] = (), **other: object) -> TaskContext:
    values = {"task_id": f"job_{component}_0", "version": "0", "name": f"{component}_0", **other}
    return TaskContext(component=component, me=me, parties=tuple(parties), **values)


def run_everywhere(
    run: Callable[[TaskContext], Outcome], component: str, inputs: Mapping[Party, str], data_dir: Path,
    parameters: Mapping[Party, Mapping[str, object]] | None = None,
) -> tuple[dict[Party, Outcome], MemoryExchange]:
    """The outcome at each party that has an input (empty: none needed), and what crossed between them."""
    exchange = MemoryExchange()

    def part(me: Party) -> Callable[[], Outcome]:
        task = a_task(
            component, me, list(inputs),
            parameters=(parameters or {}).get(me, {}),
            inputs={"data": (inputs[me],)},
            outputs={"data": format_uri(data_dir, "output", f"{component}-{me.role}-{me.party_id}")},
            cores=2,
            open_channel=lambda: exchange.channel_of(me),
        )
        return lambda: run(task)

    return side_by_side({party: part(party) for party in inputs}), exchange
