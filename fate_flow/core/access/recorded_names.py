"""How the record names people: the client whose key has signed, and the name that the request gives if it is another.

`anna`, or `anna (ann@laptop)`. The first part is proved by the signature, the second one is not."""

from __future__ import annotations

LONGEST_GIVEN = 64       # so that the longest name of a client, and this, fit into the columns for names (100)


def recorded_name(client: str, given: str) -> str:
    """Return the name for the record; `given` if clients need not sign, so that `client` is empty."""
    if not client or client == given:
        return client or given
    return f"{client} ({given})" if given else client


def client_in(recorded: str) -> str:
    """Return the part of a recorded name that is proved."""
    return recorded.partition(" (")[0]
