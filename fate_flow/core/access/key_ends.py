"""Warnings that a party soon has no key: then its connections or its signatures are refused, and jobs with it stop."""

from __future__ import annotations

from collections.abc import Iterator

from fate_flow.core.access.key_list import MESSAGE, TLS, KeyList
from fate_flow.core.text.phrases import counted

_DAY_MS = 24 * 3600 * 1000
SOON_MS = 30 * _DAY_MS


def ending_soon(listed: KeyList, own_party_id: str, now: int) -> Iterator[str]:
    """Yield a sentence for each use whose last key ends within 30 days, or has ended. Times are in milliseconds.

    A key that another one of the list follows is no matter: it ends because keys were changed."""
    is_own = listed.party_id == own_party_id
    for use in (TLS, MESSAGE):
        end = listed.end_of(use)
        if end is None or end - now > SOON_MS:
            continue
        whose = "this party" if is_own else f"party {listed.party_id}"
        what_to_do = (
            f"make the next one (fate_flow key announce --use {use})" if is_own
            else f"ask the operators of party {listed.party_id} for a newer key list"
        )
        days = (end - now) // _DAY_MS
        when = "has ended" if end <= now else f"ends in {counted(days, 'day')}" if days else "ends within a day"
        yield f"the last {use} key of {whose} {when}; without one, jobs with other parties stop: {what_to_do}"
