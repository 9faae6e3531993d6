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
class DoesWithout(Protocol):
    """A module whose tasks may succeed although some parties of a role are missing."""

    @property
    def tolerates_missing_roles(self) -> frozenset[str]:
        """Also where a share of it ends badly in the middle: the others do not wait for it."""

    @property
    def starts_without_roles(self) -> frozenset[str]:
        """Where it is known at the start who is missing; who runs is told, and the others begin without them."""


@runtime_checkable
class WarnsOfParameters(Protocol):
    """A module that can also tell which parameters it does not know."""

    def warnings(self, parameters: Mapping[str, Any]) -> list[str]: ...
