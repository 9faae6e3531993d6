"""What the core asks of a catalogue of modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

OWN_PROVIDER = "fate_flow"
"""Ships the built-in modules."""


class ModuleInfo(Protocol):
    """What the catalogue knows of a module."""

    @property
    def roles(self) -> frozenset[str]: ...

    @property
    def default_task_cores(self) -> int | None: ...

    def check(self, parameters: Mapping[str, Any], role: str) -> list[str]:
        """What is wrong with the parameters of a party of this role."""


@runtime_checkable
class WarnsOfParameters(Protocol):
    """A module that can also tell which parameters it does not know."""

    def warnings(self, parameters: Mapping[str, Any]) -> list[str]: ...
