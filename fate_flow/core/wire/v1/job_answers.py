"""The data in participants' answers to commands about a job. The answers of plain v1 servers have few of these keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fate_flow.core.text.phrases import sanitized
from fate_flow.core.wire.v1.extensions import EXTENSIONS
from fate_flow.core.wire.v1.fields import count_in

STILL_ENDS = "still_ends"
"""The key of a refusal: the party accepts no command of this run until its share of the run before has ended."""

_APPROVAL = "approval"
_LONGEST_APPROVAL = 700      # the longest message and name that a party accepts with an approval
_LONGEST_REASON = 500
MOST_PLACES = 50
"""Engines that a message names, at most; a wake-up of the scheduler carries as many (server/runtime.py)."""
_LONGEST_TAG = 20
_LONGEST_LEASE = 1e9         # seconds; a longer lease is ignored


@dataclass(frozen=True)
class PlaceState:
    """What a party with several engines says of one of them, besides its tag."""

    asked: int           # cores that the seat reserves there
    free: int            # cores that are free there for its initiator


ONE_PLACE: Mapping[str, PlaceState] = {}
"""What a party says that has one engine."""


def places_data(places: Mapping[str, PlaceState], short_at: str = "") -> dict[str, Any]:
    """Return the data with the engines on which a seat reserves, by their tags, and the tag of the one that had too
    little. A party with one engine says nothing of this."""
    found = {tag: {"asked": one.asked, "free": one.free} for tag, one in places.items()}
    return {**({"places": found} if found else {}), **({"short_at": short_at} if short_at else {})}


def places_in(data: object) -> dict[str, PlaceState]:
    """Return the engines that an answer or a notice names, by tag; what does not fit is left out."""
    places = data.get("places") if isinstance(data, Mapping) else None
    given = places.items() if isinstance(places, Mapping) and len(places) <= MOST_PLACES else ()
    found = {}
    for tag, one in given:
        asked, free = count_in(one, "asked"), count_in(one, "free")
        if _is_tag(tag) and asked is not None and free is not None:
            found[tag] = PlaceState(asked, free)
    return found


def short_at_in(data: object) -> str:
    """Return the tag of the engine that had too little; empty if the party does not say."""
    tag = data.get("short_at") if isinstance(data, Mapping) else None
    return tag if isinstance(tag, str) and _is_tag(tag) else ""


def _is_tag(tag: object) -> bool:
    return isinstance(tag, str) and 0 < len(tag) <= _LONGEST_TAG and tag.isascii() and tag.isalnum()


def joined_data(
    components: Mapping[str, bool], cores: int, effective: list[dict[str, Any]], *, awaits_approval: bool,
    places: Mapping[str, PlaceState] = ONE_PLACE,
) -> dict[str, Any]:
    """Return the data of the answer to `create`.

    `components`: by name, whether the seat runs the component; FATE needs them. `effective`: those limits of the
    workers that are below the values that the job asks for."""
    return {
        "components": {name: {"need_run": runs} for name, runs in components.items()},
        "extensions": EXTENSIONS,
        "cores": cores,
        **awaits_data(awaits_approval=awaits_approval),
        **({"effective": effective} if effective else {}),
        **places_data(places),
    }


def not_run_in(data: Mapping[str, Any]) -> frozenset[str]:
    """Return the components that the party does not run, by its answer to `create`."""
    components = data.get("components")
    given = components.items() if isinstance(components, Mapping) else ()
    return frozenset(name for name, one in given if isinstance(one, Mapping) and one.get("need_run") is False)


def awaits_data(*, awaits_approval: bool) -> dict[str, Any]:
    return {"awaits": _APPROVAL} if awaits_approval else {}


def awaits_approval(data: Mapping[str, Any]) -> bool:
    return data.get("awaits") == _APPROVAL


def approved_data(text: str) -> dict[str, Any]:
    """Return the data of the answer to a check of a job that needed approval and has it."""
    return {"approved": text}


def approval_in(data: Mapping[str, Any]) -> str:
    """Return the text of the party's approval; empty if there is none."""
    return sanitized(data.get("approved"), _LONGEST_APPROVAL)


def rejected_data() -> dict[str, Any]:
    """Return the data of the answer about a job that the party has rejected."""
    return {"is_rejected": True}


def is_rejected(data: Mapping[str, Any]) -> bool:
    return data.get("is_rejected") is True


def granted_data(cores: int, memory: int, free_cores: int, lease_seconds: float) -> dict[str, Any]:
    """Return the data of the answer to an `apply` that reserved. `lease_seconds`: how long the reservation is kept."""
    return {"cores": cores, "memory": memory, "remaining_cores": free_cores, "lease_seconds": lease_seconds}


def lease_in(data: Mapping[str, Any]) -> int:
    """Return the lease in milliseconds; 0 if there is no valid one. A plain v1 party states none."""
    seconds = data.get("lease_seconds")
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < _LONGEST_LEASE:
        return 0
    return max(3, int(seconds * 1000))


def no_capacity_data(
    why: str, free_cores: int | None = None, *, never: bool = False, quota: str = ""
) -> dict[str, Any]:
    """Return the data of the answer to an `apply` that reserved nothing.

    `never`: the job asks for more than it could ever get. `quota`: the key of the quota that is the reason."""
    free = {} if free_cores is None else {"free_cores": free_cores}
    return {"why": why, **free, **({"never": True} if never else {}), **({"quota": quota} if quota else {})}


def quota_in(data: object) -> str:
    """Return the key of the quota because of which nothing was reserved; empty if there is another reason."""
    quota = data.get("quota") if isinstance(data, Mapping) else None
    return quota if isinstance(quota, str) else ""


def why_in(data: Mapping[str, Any]) -> str:
    """Return why the party reserved nothing; empty if it gives no reason, as in plain v1."""
    return sanitized(data.get("why"), _LONGEST_REASON)


def is_never(data: Mapping[str, Any]) -> bool:
    """Return whether the job asks for more than the party has in all."""
    return data.get("never") is True


def left_data(free_cores: int) -> dict[str, Any]:
    """Return the data of the answer to a command that released cores."""
    return {"remaining_cores": free_cores}


def free_cores_in(data: object) -> int | None:
    """Return the free cores that a party states, after a release or with a refusal; None if it states none."""
    found = [count_in(data, key) for key in ("remaining_cores", "free_cores")]
    return next((free for free in reversed(found) if free is not None), None)


def refused_cores_in(data: Mapping[str, Any]) -> int | None:
    """Return the free cores that a refusal states; None if it states none."""
    return count_in(data, "free_cores")


def ended_data(data: Mapping[str, Any] | None, ended_as: str) -> dict[str, Any]:
    """Return the data of the answer to an end, with the status in which the party's own row ends."""
    return {**(data or {}), "ended_as": ended_as}


def ended_as_in(data: Mapping[str, Any]) -> str:
    return sanitized(data.get("ended_as"), 20)


def missing_data(names: list[str]) -> dict[str, Any]:
    """Return the data of the answer to the command that begins a run.

    `names`: the tasks whose shares the party has not kept."""
    return {"lacks": names}


def missing_in(data: Mapping[str, Any]) -> tuple[str, ...]:
    names = data.get("lacks")
    return tuple(one for one in names if isinstance(one, str)) if isinstance(names, list) else ()


def still_ends_data() -> dict[str, Any]:
    return {STILL_ENDS: True}


def still_ends(data: object) -> bool:
    return isinstance(data, Mapping) and bool(data.get(STILL_ENDS))
