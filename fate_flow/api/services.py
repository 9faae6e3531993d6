"""What the HTTP doors are given: built once in `fate_flow/server.py`, handed to `create_*_app`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fate_flow.coordinator.desk import Desk
from fate_flow.coordinator.ports import Context
from fate_flow.settings import Settings
from fate_flow.store.views import Views


@dataclass(frozen=True)
class Services:
    settings: Settings
    context: Context
    desk: Desk
    views: Views                         # the read side: rows as clients see them
    new_job_id: Callable[[], str]
