"""The description of a component: what providers say about each of theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from fate_flow.components.base.errors import shown
from fate_flow.core.model.artifact import DATA, ArtifactInfo, ArtifactInfos, counted
from fate_flow.core.model.grammar import shown_key
from fate_flow.core.model.modules import ProviderInfo
from fate_flow.core.model.spec import Party
from fate_flow.jobspec.text.document import nearest

PASS_THROUGH = frozenset({"need_run", "need_deploy", "provider", "CodePath"})
"""Keys among the parameters of a component that are for the coordinator."""

BOUND = "table_bind"
"""The origin of tables that are bound to a file or to a table of another server."""

ONE_TABLE: ArtifactInfos = {"data": ArtifactInfo()}
"""The inputs or the outputs of a component that has one table."""

_MOST_HINTS = 100


@dataclass(frozen=True)
class Parameter:
    """One parameter: whether it is required, which values are right, and text that describes them."""

    expected: str
    is_right: Callable[[object], bool]
    required: bool = False
    keys: tuple[str, ...] = ()          # for an object: the keys that are read


@dataclass(frozen=True)
class ComponentInfo:
    provider: ProviderInfo
    module: str                                    # the name in a DSL: "Intersection"
    name: str                                      # the name in a task configuration
    description: str
    roles: frozenset[str]
    parameter_group: str                           # the key of the parameters in `flow component parameters`
    parameters: Mapping[str, Parameter]
    refuses_unknown: bool = False                  # an unknown parameter is an error, not a warning
    stages: frozenset[str] = frozenset()           # that it has code for; empty: any, for it runs the same in each
    inputs: ArtifactInfos = field(default_factory=dict)      # data and models, by key
    outputs: ArtifactInfos = field(default_factory=dict)     # likewise; every component writes metrics, too
    takes_other_keys: bool = False                 # inputs and outputs of other keys are no error, as in FATE v1
    names_outputs: bool = False                    # its parameters name the tables that it writes
    default_task_cores: int | None = None          # None: as the job says
    examine: Callable[[Mapping[str, object]], list[str]] | None = None    # check of several values together
    examine_all: Callable[[Mapping[Party, Mapping[str, object]]], list[str]] | None = None    # check of all parties
    is_without_table: Callable[[Mapping[str, object], str], bool] | None = None    # whether a role gets no output table
    made_at: tuple[str, str] | None = None                   # parameters with the name of the table that it makes
    origin: str = ""                               # of its tables, if they outlive the results of the job
    reads_by_name: bool = False                    # its parameters namespace and name name the table that it reads
    file_read: str = ""                            # the parameter with the path of the file that it reads
    file_written: str = ""                         # the parameter with the path of the file that it writes
    uses_connector: bool = False                   # its parameter connector names a server of the configuration
    column_parameters: tuple[str, ...] = ()                  # parameters with a column of the table that it reads
    hands_on: Callable[[Mapping[str, object], tuple[str, ...]], tuple[str, ...]] | None = None    # output columns
    exchanges_messages: bool = False               # its workers at several parties exchange messages
    ignores_least_intersection: bool = False       # it exchanges messages and does not know that limit of grants
    tolerates_missing_roles: frozenset[str] = frozenset()    # roles whose shares may break while the others run
    starts_without_roles: frozenset[str] = frozenset()       # roles whose parties may be missing from the start

    def check(self, parameters: Mapping[str, object], role: str) -> list[str]:
        """Return what is wrong with the parameters of a party; each text names key, value and what is right."""
        if role not in self.roles:
            return [f"{self.module} does not run at role {shown(role)}, only at {', '.join(sorted(self.roles))}"]
        missing = [
            f"{key} is missing; {one.expected} is needed"
            for key, one in self.parameters.items()
            if one.required and parameters.get(key) is None
        ]
        found = missing + [
            f"{key}: {shown(value)} is not {self.parameters[key].expected}"
            for key, value in parameters.items()
            if key in self.parameters and value is not None and not self.parameters[key].is_right(value)
        ]
        if self.refuses_unknown:
            found += [f"{key}: is not known{self._hint(key)}" for key in self._unknown(parameters)[:_MOST_HINTS]]
        return found if found or self.examine is None else self.examine(parameters)

    def check_all(self, parameters: Mapping[Party, Mapping[str, object]]) -> list[str]:
        """Return what is wrong with the parameters of all parties together, given that each party's are right."""
        return [] if self.examine_all is None else self.examine_all(parameters)

    def makes_table(self, parameters: Mapping[str, object], role: str) -> bool:
        """Return whether the task makes an output table at a party of this role."""
        if self.is_without_table is not None and self.is_without_table(parameters, role):
            return False
        return self.names_outputs or any(one.section == DATA for one in self.outputs.values())

    @property
    def needed_inputs(self) -> tuple[str, ...]:
        """The keys of the inputs that it cannot run without."""
        return tuple(key for key, one in self.inputs.items() if not one.is_optional)

    def outputs_at(self, role: str, stage: str) -> dict[str, str]:
        """Return the kinds of its outputs besides metrics, by their keys, at a party of this role in this stage."""
        return {key: one.kinds[0] for key, one in counted(self.outputs, role, stage).items()}

    @property
    def only_hands_on(self) -> bool:
        """Whether its only output is the table that its parameters name."""
        return not self.inputs and self.hands_on is not None

    def table_made(self, parameters: Mapping[str, object]) -> tuple[str, str] | None:
        """Return namespace and name of the table that it makes by its parameters; None if they name none."""
        namespace, name = (parameters.get(key) for key in self.made_at or ("", ""))
        return (str(namespace), str(name)) if namespace and name else None

    def table_origin(self, parameters: Mapping[str, object]) -> str:
        """Return the origin of its tables; empty if they are results of the job.

        With the parameter `is_bound`, a table counts as bound to its file instead of uploaded."""
        return BOUND if self.origin and parameters.get("is_bound") else self.origin

    def columns_read(self, parameters: Mapping[str, object]) -> dict[str, str]:
        """Return the columns that parameters name, by the key of the parameter."""
        return {key: str(parameters[key]) for key in self.column_parameters if parameters.get(key)}

    def columns_made(self, parameters: Mapping[str, object], given: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the columns of its output, for an input with the columns `given`; None if they are unknown."""
        return self.hands_on(parameters, given) if self.hands_on is not None else None

    def warnings(self, parameters: Mapping[str, object]) -> list[str]:
        """Return a text for each parameter without effect, unless that is an error already.

        Genuine clients send more parameters than we know."""
        if self.refuses_unknown:
            return []
        return [
            f"{key}: {self.module} has no such parameter, it has no effect"
            for key in (*self._unknown(parameters), *self._unknown_inside(parameters))
        ]

    def _unknown(self, parameters: Mapping[str, object]) -> list[str]:
        return [key for key in own_parameters(parameters) if key not in self.parameters]

    def _unknown_inside(self, parameters: Mapping[str, object]) -> Iterator[str]:
        for name, parameter in self.parameters.items():
            value = parameters.get(name)
            if parameter.keys and isinstance(value, Mapping):
                yield from (f"{name}.{shown_key(key)}" for key in value if key not in parameter.keys)

    def _hint(self, key: str) -> str:
        return nearest(key, self.parameters) or f"; known here: {', '.join(self.parameters)}"


def own_parameters(parameters: Mapping[str, object]) -> dict[str, object]:
    """Return the parameters without those for the coordinator."""
    return {key: value for key, value in parameters.items() if key not in PASS_THROUGH}
