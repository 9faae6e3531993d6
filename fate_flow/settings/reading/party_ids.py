"""Reading ids of parties."""

from __future__ import annotations

from fate_flow.core.model.errors import BadRequest, BadSettings
from fate_flow.core.model.grammar import check_party_id
from fate_flow.settings.reading.section import Section, collected


@collected
def read_party_ids(section: Section, key: str) -> frozenset[str]:
    name, listed = section.name(key), section.get(key, [])
    if not isinstance(listed, list):
        raise BadSettings(f"{name}: {listed!r} is not a list of party ids")
    return frozenset(read_party_id(str(one), name) for one in listed)


def read_party_id(text: str, name: str) -> str:
    try:
        return check_party_id(text)
    except BadRequest as error:
        raise BadSettings(f"{name}: {text!r} is not a party id, such as \"9999\"") from error
