"""What the address of a page about a task says: the job, the task, and which attempt at which party."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import check_party_id, check_role, shown
from fate_flow.core.model.job import Task, TaskKey
from fate_flow.core.model.spec import Party
from fate_flow.store.views.board_task import TaskShares

_LONGEST_NUMBER = 15


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
