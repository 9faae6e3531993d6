"""What the core asks of a catalogue of modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from fate_flow.core.model.spec import Party

OWN_PROVIDER = "fate_flow"
"""Ships the built-in modules."""

STANDARD_PROVIDERS = frozenset({OWN_PROVIDER, "fate"})
"""What the genuine pipeline says of every component when nobody chose a provider: there is nothing to tell anybody."""


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
class ExchangesMessages(Protocol):
    """A module that can tell whether its workers at several parties talk to each other."""

    @property
    def exchanges_messages(self) -> bool: ...


@runtime_checkable
class WarnsOfParameters(Protocol):
    """A module that can also tell which parameters it does not know."""

    def warnings(self, parameters: Mapping[str, Any]) -> list[str]: ...


@runtime_checkable
class ChecksAllParties(Protocol):
    """A module whose parties have to be told what goes together."""

    def check_all(self, parameters: Mapping[Party, Mapping[str, Any]]) -> list[str]:
        """What is wrong with the parameters of all parties that run it; those of each party are right."""


@runtime_checkable
class KnowsColumns(Protocol):
    """A module that says what becomes of the columns of the one table that it reads."""

    def columns_read(self, parameters: Mapping[str, Any]) -> Mapping[str, str]:
        """By parameter, the column that it names."""

    def columns_made(self, parameters: Mapping[str, Any], given: tuple[str, ...]) -> tuple[str, ...] | None:
        """Those of its output; None where nobody knows."""


@runtime_checkable
class MakesNamedTable(Protocol):
    """A module that makes a table by the name that its parameters give it."""

    def table_made(self, parameters: Mapping[str, Any]) -> tuple[str, str] | None:
        """Namespace and name."""


@runtime_checkable
class ReadsAndMakesTables(Protocol):
    """A module that says which tables it reads and makes."""

    @property
    def needed_inputs(self) -> tuple[str, ...]:
        """Keys of the inputs that it cannot run without; it takes one table at each."""

    def makes_table(self, parameters: Mapping[str, Any], role: str) -> bool:
        """Whether a party of this role has a table of its own afterwards."""
