"""What the jobs of other parties get on one engine: `engines.NAME.partners`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from fate_flow.core.model.errors import BadSettings
from fate_flow.settings.reading.section import Section

T = TypeVar("T")


def read_partners(section: Section, own: T, share: Callable[[Section, T], T]) -> Mapping[str, T]:
    """Return what jobs get, by the id of their initiator. `share` reads it; what is missing is as in `own`. Raises
    BadSettings."""
    given, found = section.section("partners"), {}
    for key in given.names():
        name = str(key)
        if not name.isdecimal():
            raise BadSettings(f"{given.name(name)}: is not the id of a party, which has digits alone")
        one = given.section(name)
        found[name] = share(one, own)
        one.refuse_others()
    return found
