"""`stored_inputs` of a component: data inputs that no component of the job makes, by the key of the input.

They are beside the parameters of the component, as `need_run` is, so that each party has its own, which the others need
not see: `{key: {table: {namespace, name}}}`, a table of the party that reads it, or `{key: {output: {job_id, task,
output}}}`, an output of a task of another job at that party. A component that takes several has a list of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fate_flow.core.model.errors import BadRequest
from fate_flow.core.model.grammar import (
    check_component_name,
    check_job_id,
    check_output_name,
    check_table_piece,
    shown,
    shown_key,
)
from fate_flow.core.model.spec import NamedOutput, NamedTable, Stored

KEY = "stored_inputs"
TABLE, OUTPUT = "table", "output"
_PIECES: Mapping[str, Mapping[str, Callable[[Any, str], str]]] = {
    TABLE: {"namespace": check_table_piece, "name": check_table_piece},
    OUTPUT: {"job_id": check_job_id, "task": check_component_name, "output": check_output_name},
}
_EXPECTED = '{"table": {"namespace", "name"}} or {"output": {"job_id", "task", "output"}}'


def read_stored(value: object) -> tuple[dict[str, tuple[Stored, ...]], list[str]]:
    """Return the inputs, and what is wrong with them; each text begins with the key."""
    if value is None:
        return {}, []
    if not isinstance(value, Mapping):
        return {}, [f"{KEY}: {shown(value)} is not an object with inputs by their keys"]
    found: dict[str, tuple[Stored, ...]] = {}
    problems: list[str] = []
    for key, given in value.items():
        several = given if isinstance(given, list) else [given]
        try:
            if given is not None:
                found[key] = tuple(_stored(one) for one in several)
        except BadRequest as error:
            problems.append(f"{KEY}.{shown_key(key)}: {error.message}")
    return {key: each for key, each in found.items() if each}, problems


def _stored(value: object) -> Stored:
    """Return one. Raises BadRequest."""
    if not isinstance(value, Mapping) or len(value) != 1 or not value.keys() <= _PIECES.keys():
        raise BadRequest(f"{shown(value)} is not {_EXPECTED}")
    [(kind, inside)] = value.items()
    if not isinstance(inside, Mapping) or inside.keys() != _PIECES[kind].keys():
        raise BadRequest(f"{kind}: {shown(inside)} is not an object with {' and '.join(_PIECES[kind])}")
    pieces = [check(inside[key], f"{kind}.{key}") for key, check in _PIECES[kind].items()]
    return NamedTable(*pieces) if kind == TABLE else NamedOutput(*pieces)
