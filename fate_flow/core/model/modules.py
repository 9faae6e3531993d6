"""The interfaces through which the core asks about modules of components and their providers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from fate_flow.core.model.artifact import ArtifactInfos, keys_of
from fate_flow.core.model.program import ProgramSpec
from fate_flow.core.model.spec import DeclaredOutput, Party

_known: dict[tuple[type, type], bool] = {}


class _ByClass(type(Protocol)):  # type: ignore[misc]  # typing has no public name for it
    """Of protocols that are asked for all the time: remembers which classes have what they name.

    Python 3.11 looks for each name, each time, which takes 30 microseconds; all objects of a class of modules answer
    the same."""

    def __instancecheck__(cls, instance: object) -> bool:
        key = (cls, type(instance))
        found = _known.get(key)
        if found is None:
            found = _known[key] = bool(super().__instancecheck__(instance))
        return found


class ProviderInfo(Protocol):
    """The provider of a module, as far as documents, decisions and clients depend on it.

    FATE's clients see the package and its version as name and version of the provider."""

    @property
    def name(self) -> str:
        """The name in the table of providers."""

    @property
    def package(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def path(self) -> str:
        """The folder of the package with its components."""

    @property
    def has_replicas(self) -> bool:
        """Whether a share may have several workers. If it does not, its worker is that of the task's row."""

    def program(self, parameters: Mapping[str, Any]) -> ProgramSpec | None:
        """Return the program that the parameters of a party name, if workers run such programs; else None.

        The module has checked the parameters."""


class ModuleInfo(Protocol):
    """The description of a module by its provider."""

    @property
    def provider(self) -> ProviderInfo: ...

    @property
    def name(self) -> str:
        """The name in a task configuration."""

    @property
    def description(self) -> str: ...

    @property
    def roles(self) -> frozenset[str]: ...

    @property
    def default_task_cores(self) -> int | None: ...

    def check(self, parameters: Mapping[str, Any], role: str) -> list[str]:
        """Return what is wrong with the parameters of a party of this role; empty if nothing is."""


@runtime_checkable
class DoesWithout(Protocol, metaclass=_ByClass):
    """A module whose tasks may succeed although some parties of a role are missing."""

    @property
    def tolerates_missing_roles(self) -> frozenset[str]:
        """Roles whose shares may break while the task runs: the other shares do not wait for them."""

    @property
    def starts_without_roles(self) -> frozenset[str]:
        """Roles whose parties may be missing at the start: the others start without them and get the missing ones."""


@runtime_checkable
class ExchangesMessages(Protocol, metaclass=_ByClass):
    """A module that declares whether its workers at several parties exchange messages."""

    @property
    def exchanges_messages(self) -> bool: ...


@runtime_checkable
class KnowsLimits(Protocol, metaclass=_ByClass):
    """A module that declares whether its workers look at the least intersection that a party's grants ask for."""

    @property
    def ignores_least_intersection(self) -> bool: ...


@runtime_checkable
class WarnsOfParameters(Protocol, metaclass=_ByClass):
    """A module that can warn, for example, of parameters that it does not know."""

    def warnings(self, parameters: Mapping[str, Any]) -> list[str]: ...


@runtime_checkable
class ChecksAllParties(Protocol, metaclass=_ByClass):
    """A module that checks whether the parameters of all its parties go together."""

    def check_all(self, parameters: Mapping[Party, Mapping[str, Any]]) -> list[str]:
        """Return what does not go together, given parameters of all parties that are right one by one."""


@runtime_checkable
class KnowsColumns(Protocol, metaclass=_ByClass):
    """A module that reads one table, and declares which columns it needs and which it makes."""

    def columns_read(self, parameters: Mapping[str, Any]) -> Mapping[str, str]:
        """Return the columns that parameters name, by the key of the parameter."""

    def columns_made(self, parameters: Mapping[str, Any], given: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the columns of its output, for an input with the columns `given`; None if they are unknown."""


@runtime_checkable
class HandsTablesOn(Protocol, metaclass=_ByClass):
    """A module that declares whether its tasks do nothing with a table but hand it on."""

    @property
    def only_hands_on(self) -> bool:
        """Whether its only output is the very table that its parameters name."""


@runtime_checkable
class MakesNamedTable(Protocol, metaclass=_ByClass):
    """A module that makes a table with the name that its parameters give."""

    def table_made(self, parameters: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return namespace and name of the table; None if the parameters name none."""


@runtime_checkable
class DescribesArtifacts(Protocol, metaclass=_ByClass):
    """A module that describes its inputs and outputs by the keys that its workers have for them."""

    @property
    def stages(self) -> frozenset[str]:
        """The stages that it has code for; empty: any, for it does the same in each."""

    @property
    def inputs(self) -> ArtifactInfos: ...

    @property
    def outputs(self) -> ArtifactInfos:
        """The outputs besides metrics, in the order in which a DSL gives them names of its own."""

    @property
    def takes_other_keys(self) -> bool:
        """Whether a document may name other inputs and outputs, too. They have no effect."""


@runtime_checkable
class ReadsNamedTable(Protocol, metaclass=_ByClass):
    """A module that declares where its parameters name the table that it reads."""

    @property
    def reads_by_name(self) -> bool:
        """Whether `namespace` and `name` are parameters of their own; if not, they stand in the parameter `table`."""


@runtime_checkable
class KeepsTables(Protocol, metaclass=_ByClass):
    """A module that declares whether its tables outlive the results of the job."""

    def table_origin(self, parameters: Mapping[str, Any]) -> str:
        """Return the origin that the row of such a table gets; empty if the tables are results of the job."""


@runtime_checkable
class OpensFiles(Protocol, metaclass=_ByClass):
    """A module that declares which of its parameters name a file or a server that its worker opens."""

    @property
    def file_read(self) -> str:
        """The parameter with the path of the file that it reads; empty if it reads none. A client may have sent it."""

    @property
    def file_written(self) -> str:
        """The parameter with the path of the file that it writes; empty if it writes none."""

    @property
    def uses_connector(self) -> bool:
        """Whether the parameter `connector` names a server that the operator configured."""


@runtime_checkable
class ReadsAndMakesTables(Protocol, metaclass=_ByClass):
    """A module that declares which tables it reads and makes."""

    @property
    def needed_inputs(self) -> tuple[str, ...]:
        """Keys of the inputs that it cannot run without; each takes one table."""

    def makes_table(self, parameters: Mapping[str, Any], role: str) -> bool:
        """Return whether the task makes an output table at a party of this role."""


def output_names(
    module: ModuleInfo | None, declared: Iterable[DeclaredOutput], section: str, stage: str
) -> dict[str, str]:
    """Return the names by which other tasks read the outputs of a section, by the module's keys for them.

    An output has its key as its name, unless the document declares others; those are in the order of the keys."""
    if not isinstance(module, DescribesArtifacts):
        return {}
    keys = keys_of(module.outputs, section, stage)
    names = [one.alias for one in declared if one.kind == section]
    return dict(zip(keys, keys if set(names) <= module.outputs.keys() else names, strict=False))


def provider_info(modules: Mapping[str, ModuleInfo], name: str) -> dict[str, Any]:
    """Return what the row of a task says about the provider of its module, as FATE writes it; empty if there is no
    such module."""
    module = modules.get(name)
    if module is None:
        return {}
    one = module.provider
    return {"name": one.package, "version": one.version, "path": one.path, "class_path": {}}


def has_replicas(modules: Mapping[str, ModuleInfo], name: str) -> bool:
    """Return whether shares of tasks of the module of this name may have several workers."""
    module = modules.get(name)
    return module is not None and module.provider.has_replicas


# ------------------------------------------------------------------ providers with a Python of their own


@dataclass(frozen=True)
class ProviderPlace:
    """A provider of the configuration: the Python that has its components, and the module that runs them."""

    name: str
    version: str
    python: str           # absolute; a link stays one, as that of a virtual environment is
    module: str           # `PYTHON -m MODULE component execute|list|desc`
    is_kept_warm: bool = True     # whether a process of it waits with everything imported, and forks workers


@dataclass(frozen=True)
class ProviderState:
    """Whether the components of such a provider may be used here now."""

    name: str
    version: str
    path: str
    is_ready: bool
    why_not: str = ""     # if it is not ready: what is missing, or what it waits for


@runtime_checkable
class KnowsProviders(Protocol, metaclass=_ByClass):
    """A table of modules that also knows providers whose modules are not all there."""

    def find_of(self, provider: str, module: str) -> tuple[str, str]:
        """Return the name in the table, else "", and why the module cannot be used, else "".

        `provider`: as a document names it, such as `fate@2.2.0`; empty: it names none. Both are empty if the table has
        nothing to say beyond that there is no such module."""

    def states(self) -> tuple[ProviderState, ...]:
        """Return how these providers are, ready or not."""

    def document_of(self, module: str) -> Mapping[str, object]:
        """Return the description of a module in the form of FATE 2. Raises KeyError."""


def find_module(modules: Collection[str], provider: str, name: str) -> tuple[str, str]:
    """Return what `KnowsProviders.find_of` says; a table that does not know providers compares names only."""
    if isinstance(modules, KnowsProviders):
        return modules.find_of(provider, name)
    return (name, "") if name in modules else ("", "")
