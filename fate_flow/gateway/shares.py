"""How much of the gateway each party has in use, and how much of the application all of them have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from fate_flow.core.quotas.pace import TokenBucket
from fate_flow.gateway.limits import Limits
from fate_flow.gateway.refusals import Refused


class Share:
    """What one party has in use."""

    def __init__(self, limits: Limits, party_id: str) -> None:
        self.party_id = party_id
        self.connections = 0
        self.stored_bytes = 0
        self.requests = asyncio.Semaphore(limits.requests_of_party)
        self.application = asyncio.Semaphore(limits.application_requests_of_party)


class Shares:
    """The shares of all parties that are connected. `within`: other shares, whose part of the application is that of
    both together."""

    def __init__(self, limits: Limits, within: Shares | None = None) -> None:
        self._limits = limits
        self._within = within
        self._stored = _Stored()
        self._of: dict[str, Share] = {}
        self._paces: dict[str, TokenBucket] = {}      # they outlive connections; there is one for each known party
        self._application = asyncio.Semaphore(limits.application_requests)

    @contextmanager
    def connection(self, party_id: str) -> Iterator[Share]:
        """Yield the share of a party for one more connection. Raises Refused."""
        share = self._of.get(party_id) or Share(self._limits, party_id)
        self._of[party_id] = share
        if share.connections >= self._limits.connections_of_party:
            raise Refused(429, f"party {party_id} has {share.connections} open connections, the most that it may have")
        share.connections += 1
        try:
            yield share
        finally:
            share.connections -= 1
            if not share.connections:
                del self._of[party_id]

    def _pace_of(self, party_id: str) -> TokenBucket:
        if party_id not in self._paces:
            quota, now = self._limits.quotas.of(party_id), asyncio.get_running_loop().time()
            self._paces[party_id] = TokenBucket(quota.requests_per_second, quota.requests_at_once, now)
        return self._paces[party_id]

    async def pace(self, share: Share) -> None:
        """Wait until the party may send one more request. Raises Refused if that is too long."""
        wait = self._pace_of(share.party_id).take(asyncio.get_running_loop().time(), self._limits.wait_seconds)
        if wait is None:
            raise Refused(429, self._limits.quotas.too_many_requests(share.party_id))
        if wait:
            await asyncio.sleep(wait)

    @asynccontextmanager
    async def request(self, share: Share) -> AsyncIterator[None]:
        """Hold one of a party's requests. Raises Refused if none is free in time."""
        most = self._limits.requests_of_party
        text = f"this party has {most} requests under way, the most that it may have: try again later"
        async with self._held(share.requests, Refused(429, text)):
            yield

    @asynccontextmanager
    async def application(self, share: Share) -> AsyncIterator[None]:
        """Hold a thread of the application. Raises Refused if none is free in time."""
        busy = Refused(503, "the server is busy with requests of other parties: try again later")
        async with self._held(share.application, busy), self._held(self._application, busy):
            if self._within is None:
                yield
            else:
                async with self._held(self._within._application, busy):
                    yield

    @contextmanager
    def stored(self, share: Share) -> Iterator[StoredBytes]:
        """Yield what counts the bytes of one request, and then of its answer if that is large."""
        count = StoredBytes(share, self._limits.stored_bytes_of_party, self._stored, self._limits.stored_bytes)
        try:
            yield count
        finally:
            count.release()

    @asynccontextmanager
    async def _held(self, semaphore: asyncio.Semaphore, otherwise: Refused) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._limits.wait_seconds):
                await semaphore.acquire()
        except TimeoutError:
            raise otherwise from None
        try:
            yield
        finally:
            semaphore.release()


@dataclass
class _Stored:
    """The bytes that all parties of some shares have stored."""

    count: int = 0


class StoredBytes:
    """The bytes that one request takes of the share of its party, and of what all have together."""

    def __init__(self, share: Share, most: int, of_all: _Stored, most_of_all: int) -> None:
        self._share = share
        self._most = most
        self._of_all = of_all
        self._most_of_all = most_of_all
        self._taken = 0

    def reach(self, count: int) -> None:
        """Take as many bytes as `count` altogether. Raises Refused if the share is used up."""
        more = count - self._taken
        if more <= 0:
            return
        if self._share.stored_bytes + more > self._most:
            what = "the requests and answers of this party that are under way"
            raise Refused(429, f"{what} have more than {self._most} bytes: try again later")
        if self._of_all.count + more > self._most_of_all:
            raise Refused(503, "the server is busy with large requests of other parties: try again later")
        self._share.stored_bytes += more
        self._of_all.count += more
        self._taken += more

    def release(self) -> None:
        self._share.stored_bytes -= self._taken
        self._of_all.count -= self._taken
        self._taken = 0
