"""Limits of grants as the text of their columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fate_flow.core.access.limits import PartyLimits, TableLimits


def table_limits_text(limits: TableLimits) -> str | None:
    """Return the text of `t_permission.f_limits`; None without limits."""
    found = _set(asdict(limits))
    if limits.columns is not None:
        found["columns"] = sorted(limits.columns)
    return json.dumps(found) if found else None


def table_limits(text: str) -> TableLimits:
    found = json.loads(text)
    columns = found.get("columns")
    return TableLimits(None if columns is None else frozenset(columns), found.get("uses_a_day"))


def party_limits_text(limits: PartyLimits) -> str:
    """Return the text of `t_party_limits.f_limits`."""
    found = _set(asdict(limits))
    if limits.programs is not None:
        found["programs"] = sorted(limits.programs)
    return json.dumps(found)


def party_limits(text: str) -> PartyLimits:
    found = json.loads(text)
    programs = found.get("programs")
    return PartyLimits(**{**found, "programs": None if programs is None else frozenset(programs)})


def _set(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
