"""The client roles: what the owner of a client key may do at this party.

Each route for clients names those that suffice, where it is declared (`api/http/declared.py`). They have nothing to do
with the roles of parties in a job (guest, host)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Flag

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import shown


class ClientRole(Flag):
    """A client role, or a set of them. Written at a route, `SUBMIT | OPERATE` means that either suffices."""

    READ = 1         # see states, documents, results and grants, but no rows of tables and no logs; in all but METRICS
    SUBMIT = 2       # submit, change and stop jobs; upload, download, show and delete tables
    OPERATE = 4      # stop and hold jobs, hold the queue, release cores, remove results, name files of the machine
    APPROVE = 8      # approve and reject jobs of other parties
    GRANT = 16       # grants to other parties, and their public keys
    AUDIT = 32       # read logs
    METRICS = 64     # scrape /metrics with a password, and nothing else: this role does not include READ


READ, SUBMIT, OPERATE = ClientRole.READ, ClientRole.SUBMIT, ClientRole.OPERATE
APPROVE, GRANT, AUDIT = ClientRole.APPROVE, ClientRole.GRANT, ClientRole.AUDIT
METRICS = ClientRole.METRICS

OPEN = ClientRole(0)
"""Of a page that everybody may read, also without a key."""

ALL_ROLES = READ | SUBMIT | OPERATE | APPROVE | GRANT | AUDIT | METRICS


def suffices(held: ClientRole, needed: ClientRole) -> bool:
    """Return whether somebody with these roles may use a route that names the needed ones."""
    reads = READ if held & ~METRICS else OPEN
    return not needed or bool((held | reads) & needed)


def names_of(roles: ClientRole) -> tuple[str, ...]:
    """Return the names of these roles, as commands and files have them."""
    return tuple(str(one.name).lower() for one in roles)


def roles_named(names: Iterable[object]) -> ClientRole:
    """Return the roles of these names. Raise BadRequest for an unknown name, and without any."""
    known = {name: ClientRole[name.upper()] for name in names_of(ALL_ROLES)}
    found = OPEN
    for name in names:
        role = known.get(name) if isinstance(name, str) else None
        if role is None:
            raise BadRequest(f"{shown(name)} is not a client role: {', '.join(known)}")
        found |= role
    if not found:
        raise BadRequest(f"a client needs a role: {', '.join(known)}")
    return found
