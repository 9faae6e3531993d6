"""The section `quotas`: how much of this server each other party may take."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from fate_flow.core.quotas.quota import PartyQuota, Quotas
from fate_flow.settings.reading.party_ids import read_party_id
from fate_flow.settings.reading.section import Section, collected


def read_quotas(section: Section, own_party_id: str) -> Quotas:
    default = _quota(section.section("default"), PartyQuota())
    parties = section.section("parties")
    found = (_named(parties, key, default) for key in parties.names())
    quotas = Quotas(own_party_id, default, dict(filter(None, found)))
    section.refuse_others()
    return quotas


@collected
def _named(section: Section, key: Any, default: PartyQuota) -> tuple[str, PartyQuota]:
    """Return the quota of one party; what its section does not have is that of `default`."""
    return read_party_id(str(key), section.name(key)), _quota(section.section(key), default)


def _quota(section: Section, default: PartyQuota) -> PartyQuota:
    found: dict[str, Any] = {}
    for one in fields(PartyQuota):
        known = getattr(default, one.name)
        is_share = one.type == "float"
        found[one.name] = section.share(one.name, known) if is_share else section.whole(one.name, known, 1)
    section.refuse_others()
    return PartyQuota(**found)
