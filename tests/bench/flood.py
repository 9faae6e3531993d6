"""(9) Honest callers of a server that is flooded: how long each waits for its answer.

The server has a gateway, a port of clients and a plain listener. The flood comes from another process and from another
address of this machine; a joined party sends what goes through the gateway. Meanwhile an honest client, a joined party
and a plain one ask in turn, each over a new connection: the longest way to an answer. The quotas are the default ones.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import secrets
import shutil
import signal
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from typing import Any

from fate_flow.peers.tls import client_context
from tests.bench.cluster import ROOT, BenchFailed
from tests.bench.numbers import spread
from tests.fuzz.site import ATTACKER, PLAIN_ATTACKER, Site, running_site

FLOODER = "127.0.0.2"
PAUSE_SECONDS = 0.02             # between two honest requests, and before a flooder connects again
DRIP_SECONDS = 1.0
SETTLE_SECONDS = 5.0             # from the begin of a flood to the first honest request
_HEAD = b"POST /v1/party/heartbeat HTTP/1.1\r\nHost: x\r\nSRC-PARTY-ID: %s\r\nDEST-PARTY-ID: 9999\r\n"
_BEATS = b'{"jobs": []}'


@dataclass(frozen=True)
class Flood:
    """Connections that are always there: one that ends is made again."""

    to: str                          # gateway, handshake (TCP to the gateway), clients or plain
    connections: int
    first: bytes = b""               # what each sends at once
    drip: bytes = b""                # and each second
    is_answered: bool = False        # `first` is a whole request, which is sent again after each answer


def head(party_id: str, length: int) -> bytes:
    return _HEAD % party_id.encode() + b"Content-Length: %d\r\n\r\n" % length


def floods() -> dict[str, tuple[Flood, ...]]:
    """By name; the gateway lets a party have 64 connections, and gunicorn some 800 callers."""
    callers = {"gateway": ATTACKER, "clients": ATTACKER, "plain": PLAIN_ATTACKER}
    found = {
        "no flood": (),
        "half heads": tuple(
            Flood(to, 64 if to == "gateway" else 500, head(name, 9)[:-20], b"x") for to, name in callers.items()
        ),
        "slow bodies": tuple(Flood(to, 60, head(name, 1 << 20), b"x") for to, name in callers.items()),
        "silent connections": (
            Flood("handshake", 500), Flood("gateway", 64), Flood("clients", 500), Flood("plain", 500),
        ),
        "requests": tuple(
            Flood(to, 16, head(name, len(_BEATS)) + _BEATS, is_answered=True) for to, name in callers.items()
        ),
    }  # fmt: skip
    return {**found, "all at once": tuple(one for each in found.values() for one in each)}


def measure(seconds: float) -> dict[str, Any]:
    folder = ROOT / f"flood-{secrets.token_hex(3)}"
    try:
        with running_site(folder, quotas={}) as site:
            return {"floods": {name: _measured(site, each, seconds) for name, each in floods().items()}}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measured(site: Site, found: Sequence[Flood], seconds: float) -> dict[str, Any]:
    honest = {"client": site.client_answers, "peer": site.peer_answers, "plain peer": site.plain_peer_answers}
    times: dict[str, list[float]] = {name: [] for name in honest}
    failed = 0
    with _flooding(site, found) as sent:
        time.sleep(SETTLE_SECONDS)
        began, before = time.monotonic(), sent.value
        end = began + seconds
        while time.monotonic() < end:
            for name, ask in honest.items():
                begun = time.perf_counter()
                try:
                    is_good = ask()
                except (OSError, ValueError):
                    is_good = False
                times[name].append((time.perf_counter() - begun) * 1000)
                failed += not is_good
                time.sleep(PAUSE_SECONDS)
        rate = (sent.value - before) / (time.monotonic() - began)
    return {
        "ms": {name: spread(each) for name, each in times.items()}, "asked_each": len(times["client"]),
        "failed": failed, "flood_per_s": round(rate, 1),
    }


@contextmanager
def _flooding(site: Site, found: Sequence[Flood]) -> Iterator[Synchronized[int]]:
    """Run the flood in a process of its own; yield how many requests and parts of requests it has sent."""
    forked = multiprocessing.get_context("fork")
    sent = forked.Value("L")
    flooder = forked.Process(target=_flood, args=(site, found, sent), daemon=True)
    flooder.start()
    try:
        yield sent
        if not flooder.is_alive():
            raise BenchFailed(f"the process that floods has ended with exit code {flooder.exitcode}")
    finally:
        flooder.kill()
        flooder.join()


def _flood(site: Site, found: Sequence[Flood], sent: Synchronized[int]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    context = client_context(site.parties[ATTACKER].own, [site.own])
    ports = {
        "gateway": (site.parties_port, context), "handshake": (site.parties_port, None), "clients": (site.port, None),
        "plain": (site.plain_port, None),
    }  # fmt: skip
    asyncio.run(_all_of(found, ports, sent))


async def _all_of(
    found: Sequence[Flood], ports: Mapping[str, tuple[int, ssl.SSLContext | None]], sent: Synchronized[int]
) -> None:  # fmt: skip
    async with asyncio.TaskGroup() as group:
        for one in found:
            for _ in range(one.connections):
                group.create_task(_again_and_again(one, *ports[one.to], sent))
        group.create_task(asyncio.sleep(float("inf")))       # also without a flood


async def _again_and_again(one: Flood, port: int, context: ssl.SSLContext | None, sent: Synchronized[int]) -> None:
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, local_addr=(FLOODER, 0))
            try:
                await _use(one, reader, writer, sent)
            finally:
                writer.close()
        await asyncio.sleep(PAUSE_SECONDS)


async def _use(
    one: Flood, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sent: Synchronized[int]
) -> None:  # fmt: skip
    """Use a connection until the server ends it."""
    data = one.first
    while True:
        writer.write(data)
        sent.value += 1              # by the only process that writes it
        try:
            async with asyncio.timeout(None if one.is_answered else DRIP_SECONDS):
                if not await reader.read(65536):
                    return
        except TimeoutError:
            data = one.drip
