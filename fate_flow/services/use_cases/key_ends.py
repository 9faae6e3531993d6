"""Which keys end soon, of this party and of others whose keys count."""

from __future__ import annotations

from collections.abc import Callable

from fate_flow.core.access.key_ends import ending_soon
from fate_flow.core.access.key_list import KeyList, KeyState, read_key_list
from fate_flow.core.model.errors import FlowError
from fate_flow.services.context.ports import Context

OwnList = Callable[[], KeyList | None]
"""Returns the newest key list of this party, None without one. Raises FlowError."""


def key_warnings(context: Context, own: OwnList) -> list[str]:
    """Return a sentence for each."""
    saved = context.read(lambda tx: tx.all_party_keys())
    lists = [read_key_list(keys.signed.content) for keys in saved if keys.state is KeyState.JOINED]
    found = []
    try:
        lists = [one for one in (own(),) if one is not None] + lists
    except FlowError as error:
        found.append(f"the key list of this party cannot be read: {error.message}")
    now = context.clock()
    return [*found, *(text for listed in lists for text in ending_soon(listed, context.party_id, now))]
