"""What the address of a page about a task says: the job, the task, and which attempt at which party."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_component_name, check_party_id, check_role, shown
from fate_flow.core.model.job import Task, TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.store.views.board_task import TaskShares, WorkerPlace
from fate_flow.store.views.times.job_times import SharePlace

_LONGEST_NUMBER = 15
_WORKER_PLACE = re.compile(r"([0-9]{1,9})_([0-9]{1,9})_([0-9A-Za-z-]{1,100})")
_SHARE_PLACE = re.compile(r"([0-9]{1,16})_([0-9]{1,9})_([a-z]{1,20})_([0-9]{1,10})_(.{1,100})")


def number(given: Mapping[str, str], key: str) -> int | None:
    """Return a number of an address; None without one. Raise BadRequest."""
    text = given.get(key, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
        raise BadRequest(f"{key}: {shown(text)} is not a number of at most {_LONGEST_NUMBER} digits")
    return int(text)


def page_number(given: Mapping[str, str], key: str = "page") -> int:
    """Return the number of a page, the first by default. Raise BadRequest."""
    found = number(given, key)
    if found == 0 or (found or 1) >= 1_000_000:
        raise BadRequest(f"{key}: {shown(given[key])} is not a number of a page")
    return found or 1


def worker_place(given: Mapping[str, str]) -> WorkerPlace | None:
    """Return behind which worker a page of them begins; None: at the first. Raise BadRequest."""
    text = given.get("workers", "")
    if not text:
        return None
    found = _WORKER_PLACE.fullmatch(text)
    if found is None:
        raise BadRequest(f"workers: {shown(text)} is not a place of a worker as a link of this page has it")
    return WorkerPlace(int(found[1]), int(found[2]), found[3])


def written_worker(place: WorkerPlace) -> str:
    return f"{place.slot}_{place.attempt}_{place.worker_id}"


def share_place(given: Mapping[str, str]) -> SharePlace | None:
    """Return behind which attempt of a task a page of them begins; None: at the first. Raise BadRequest."""
    text = given.get("tasks", "")
    if text in ("", "1"):
        return None
    found = _SHARE_PLACE.fullmatch(text)
    if found is None:
        raise BadRequest(f"tasks: {shown(text)} is neither 1 nor a place of a task as a link of this page has it")
    party = Party(check_role(found[3], "tasks"), check_party_id(found[4], "tasks"))
    return SharePlace(int(found[1]), check_component_name(found[5], "tasks"), int(found[2]), party)


def written_share(place: SharePlace) -> str:
    return f"{place.started}_{place.version}_{place.party.role}_{place.party.party_id}_{place.name}"


def party_in(given: Mapping[str, str]) -> Party | None:
    """Return the party `role-id` of an address; None without one. Raise BadRequest."""
    text = given.get("party", "")
    if not text:
        return None
    role, _, party_id = text.partition("-")
    return Party(check_role(role, "party"), check_party_id(party_id, "party"))


def chosen_share(found: TaskShares, party: Party | None, version: int | None) -> Task | None:
    """Return the share that a page is about: by default the newest attempt, at this party's own seat if it has one."""
    fit = [
        one for one in found.shares
        if (party is None or one.key.party == party) and (version is None or one.key.version == version)
    ]  # fmt: skip
    if not fit:
        return None
    newest = max(one.key.version for one in fit)
    return min((one for one in fit if one.key.version == newest), key=lambda one: (not one.runs_here, one.key.party))


def share_arguments(key: TaskKey) -> dict[str, str]:
    return {"party": f"{key.party.role}-{key.party.party_id}", "version": str(key.version)}


def task_path(job_id: str, name: str, page: str = "", /, **arguments: object) -> str:
    """Return the address of a page of a task. Arguments that are None are left out."""
    path = f"/board/jobs/{job_id}/tasks/{quote(name)}{f'/{page}' if page else ''}"
    given = {key: value for key, value in arguments.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path
