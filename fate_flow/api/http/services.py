"""The dependencies of the HTTP routes: built in `fate_flow/server/http_processes.py`, passed to `create_*_app`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fate_flow.core.model.job import Answer
from fate_flow.core.model.spec import Party
from fate_flow.services.context.ports import Context
from fate_flow.services.initiator.unaware import UnawareParties
from fate_flow.services.record.verifying import Keys
from fate_flow.services.use_cases.use_cases import UseCases
from fate_flow.settings.settings import Settings
from fate_flow.store.views.views import Views

Ask = Callable[[Party, str, Mapping[str, Any]], Answer]
"""Asks another party's server, at a path below `/v1`, with this body."""


@dataclass(frozen=True)
class Services:
    settings: Settings
    context: Context
    use_cases: UseCases
    views: Views                         # the read side: rows as clients see them
    new_job_id: Callable[[], str]
    ask_party: Ask
    unaware: UnawareParties = field(default_factory=UnawareParties)
    record_keys: Callable[[], Keys | None] = lambda: None     # by which the record is verified; None: it has no key
