"""What is refused while the disk of this party is nearly full: whatever begins something new."""

from __future__ import annotations

from fate_flow.core.model.errors import NoSpace
from fate_flow.core.quotas.disk_space import text_for_parties
from fate_flow.services.context.ports import Context


def check_space_for_client(context: Context, incoming: int = 0) -> None:
    """Check that a client of this party may begin something new, which brings so many bytes. Raises NoSpace."""
    space = context.disk()
    if space.is_short(incoming):
        raise NoSpace(space.text_for_clients(context.party_id, incoming))


def check_space_for_party(context: Context, party_id: str) -> None:
    """Check that another party may begin something new here. Raises NoSpace."""
    space = context.disk()
    if space.is_short():
        raise NoSpace(text_for_parties(context.party_id))
    context.quotas.check_disk(party_id, context.disk_use().get(party_id, 0), space.total)


def no_space(context: Context) -> str:
    """Return why this party takes nothing new, for its own people; empty if it does."""
    space = context.disk()
    return space.text_for_clients(context.party_id) if space.is_short() else ""
