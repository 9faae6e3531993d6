"""Who is refused by a process of the gateway, in the record: one entry for each caller, cause and minute."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from fate_flow.core.record.refusal_counts import Cause
from fate_flow.gateway.refusals import Count, uncounted
from fate_flow.services.context.counted_record import RefusalRecord
from fate_flow.services.context.wall_clock import now_on_the_wall
from fate_flow.settings.settings import Settings
from fate_flow.store.contract.transaction import Transaction
from fate_flow.store.contract.transaction_retry import Retry
from fate_flow.store.sql.store import SqlStore

T = TypeVar("T")


@dataclass(frozen=True)
class _Writes:
    """What `RefusalRecord` needs, in a process that has no use cases."""

    store: SqlStore
    retry: Retry
    clock: Callable[[], int] = now_on_the_wall

    @staticmethod
    def fresh_salt() -> str:
        return secrets.token_hex(32)

    def write(self, act: Callable[[Transaction], T]) -> T:
        """Run `act` in one transaction, over a connection of its own. Raises StorageFailed."""

        def once() -> T:
            with self.store.transaction() as tx:
                return act(tx)

        try:
            return self.retry(once)
        finally:
            self.store.close()       # the thread that writes ends with the minute


@contextmanager
def counted_refusals(
    settings: Settings, store: SqlStore, route: str, make_space: Callable[[], bool]
) -> Iterator[Count]:  # fmt: skip
    """Yield what counts the refusals of this process until the end of the block, which writes the last ones.

    A thread writes them, once a minute. `route`: for whom the listeners are; `make_space`: as in `Retry`. Without a
    record nothing is counted."""
    if not settings.recording.is_on:
        yield uncounted
        return
    refusals = RefusalRecord(_Writes(store, Retry(make_space=make_space)))

    def count(cause: Cause, address: str, party_id: str, status: int) -> None:
        # A key has proved the party, so it is one of a few; an address tells no more, and may be any number of them.
        refusals.note(party_id, route, status, cause.value, "" if party_id else address)

    try:
        yield count
    finally:
        refusals.finish()
