"""The parameters of FATE's `IntersectParam` that decide which party learns what, as far as Intersection has them.

A parameter that restricts what a party learns is either followed, or the job is refused; it is never ignored.
Parameters that select one of FATE's protocols (`intersect_method`, `rsa_params`, ...) have no effect: there is one
protocol here, and no party learns more by it than by any of FATE's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fate_flow.core.model.spec import Party


@dataclass(frozen=True)
class Fixed:
    """A parameter that must have certain values."""

    expected: str
    is_right: Callable[[object], bool]


def _only(why: str, *values: str) -> Fixed:
    known = "or ".join(f"'{value}' " for value in values)
    return Fixed(f"{known}(Intersection {why})", lambda value: isinstance(value, str) and value.lower() in values)


def _never(why: str) -> Fixed:
    return Fixed(f"false (Intersection {why})", lambda value: isinstance(value, (bool, int)) and value == 0)


FIXED: Mapping[str, Fixed] = {
    "cardinality_method": _only("counts by ECDH alone", "ecdh"),
    "join_method": _only("keeps common ids only, left_join is not offered", "inner_join"),
    "new_sample_id": _never("makes no new ids"),
    "sample_id_generator": _only("makes no new ids, so it does not matter who does", "guest", "host"),
    "repeated_id_process": _never("takes tables whose ids occur once"),
    "repeated_id_owner": _only("takes tables whose ids occur once, so nobody owns others", "guest", "host"),
    "with_sample_id": _never("matches by the ids of the table, there are no others"),
    "allow_info_share": _never("shares nothing but ids"),
}


@dataclass(frozen=True)
class Disclosure:
    """Which party learns what."""

    count_only: bool = False         # the guest learns only how many ids are common; no party learns which
    count_is_shared: bool = False    # with count_only: the host learns the number, too
    ids_are_shared: bool = True      # the hosts learn which ids are common, too

    def finds_ids(self, role: str) -> bool:
        """Return whether a party of this role learns which ids are common."""
        return not self.count_only and (role == "guest" or self.ids_are_shared)


def disclosure_of(parameters: Mapping[str, object]) -> Disclosure:
    return Disclosure(
        count_only=_flag(parameters, "cardinality_only", False),
        count_is_shared=_flag(parameters, "sync_cardinality", False),
        ids_are_shared=_flag(parameters, "sync_intersect_ids", True),
    )


def is_without_table(parameters: Mapping[str, object], role: str) -> bool:
    return not disclosure_of(parameters).finds_ids(role)


def problems(parameters: Mapping[Party, Mapping[str, object]]) -> list[str]:
    """Return what is wrong with the parameters of all parties: they must agree, and counting needs a single host."""
    first = next(iter(parameters.values()), {})
    found = [
        f"{key}: {party} has {str(_flag(one, key, default)).lower()}, others have not; it has to be the same everywhere"
        for key, default in _SHARED.items()
        for party, one in parameters.items()
        if _flag(one, key, default) != _flag(first, key, default)
    ]
    hosts = sum(party.role == "host" for party in parameters)
    if not found and disclosure_of(first).count_only and hosts > 1:
        found.append(f"cardinality_only: works with one host, not with {hosts}; more than a number would be learned")
    return found


_SHARED = {"cardinality_only": False, "sync_cardinality": False, "sync_intersect_ids": True}


def _flag(parameters: Mapping[str, object], key: str, default: bool) -> bool:
    value = parameters.get(key)
    return default if value is None else bool(value)
