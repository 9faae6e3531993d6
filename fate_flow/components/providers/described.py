"""What a provider with a Python of its own says about its components: the file in the home, and what it means.

The scheduler's process writes the file (`server/periodic/describer.py`), once for each version and environment. The
processes of a server read it again when it has changed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fate_flow.components.providers.description import ComponentInfo, Parameter
from fate_flow.core.model.artifact import (
    DATA,
    DATAFRAME,
    DEFAULT_STAGE,
    MODEL,
    TABLE,
    UNRESOLVED,
    ArtifactInfo,
    ArtifactInfos,
)
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.modules import ProviderInfo, ProviderPlace

FORMAT = 1
_DEFAULT = frozenset({DEFAULT_STAGE})
_LOOK_SECONDS = 1.0
_WAITS = "its components are not described yet: that takes some seconds after the first start with this provider"


def description_file(folder: Path, place: ProviderPlace) -> Path:
    """Return the file with what this version of the provider has said."""
    return folder / f"{place.name}-{place.version}.json"


def warm_socket(folder: Path, place: ProviderPlace) -> Path:
    """Return the socket at which the warm process of this provider listens, if there is one."""
    return folder / f"{place.name}-{place.version}.sock"


@dataclass(frozen=True)
class Descriptions:
    """The components of one provider, by their names in the table; or why there are none."""

    components: Mapping[str, ComponentInfo]
    documents: Mapping[str, Mapping[str, Any]]       # as the provider has written them
    why_not: str = ""


class DescribedComponents:
    """The newest descriptions of one provider, for one process. Several threads may ask."""

    def __init__(
        self, file: Path, provider: ProviderInfo, passed: Callable[[], float] = time.monotonic
    ) -> None:
        """`passed` returns seconds from any moment on."""
        self._file, self._provider, self._passed = file, provider, passed
        self._next_look = float("-inf")
        self._seen: tuple[int, int, int] | None = None
        self._found = Descriptions({}, {}, _WAITS)

    def now(self) -> Descriptions:
        """Return what the file says. It is looked at once a second at most."""
        passed = self._passed()
        if passed >= self._next_look:
            self._next_look = passed + _LOOK_SECONDS
            self._look()
        return self._found

    def _look(self) -> None:
        try:
            status = os.stat(self._file)
        except FileNotFoundError:
            return
        seen = (status.st_mtime_ns, status.st_size, status.st_ino)
        if seen != self._seen:
            self._found, self._seen = self._read(), seen

    def _read(self) -> Descriptions:
        try:
            said = json.loads(self._file.read_text(encoding="utf-8"))
            if said["format"] != FORMAT:
                return Descriptions({}, {}, _WAITS)      # of another release; the scheduler writes it anew
            if said.get("why"):
                return Descriptions({}, {}, str(said["why"]))
            documents = said["components"]
            found = [component_info(self._provider, one) for one in documents.values()]
        except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            return Descriptions({}, {}, f"{self._file} cannot be used ({type(error).__name__}): remove it")
        return Descriptions(
            {one.module: one for one in found}, {f"{self._provider.name}.{name}": documents[name] for name in documents}
        )


def component_info(provider: ProviderInfo, document: Mapping[str, Any]) -> ComponentInfo:
    """Return the component that a provider describes in the form of FATE 2 (`component desc`).

    Raises LookupError, TypeError, AttributeError or ValueError if the document has another form."""
    name = str(document["name"])
    inputs, outputs = (_artifacts(document.get(key) or {}) for key in ("input_artifacts", "output_artifacts"))
    inputs, outputs = ({key: _also_table(one) for key, one in puts.items()} for puts in (inputs, outputs))
    stages = frozenset(stage for one in [*inputs.values(), *outputs.values()] for stage in one.stages) or _DEFAULT
    is_of_one_stage = stages == _DEFAULT     # otherwise it is not said which stage has a parameter
    info = ComponentInfo(
        provider=provider,
        module=f"{provider.name}.{name}",
        name=name,
        description=str(document.get("description") or ""),
        roles=frozenset(str(role) for role in document["roles"]),
        parameter_group=name,
        stages=stages,
        inputs=inputs,
        outputs=outputs,
        parameters={
            str(key): _parameter(one, is_of_one_stage) for key, one in (document.get("parameters") or {}).items()
        },
        refuses_unknown=True,
        exchanges_messages=True,
        ignores_least_intersection=True,
    )
    return _table_by_name(info) if _only_names_a_table(info) else info


def _also_table(one: ArtifactInfo) -> ArtifactInfo:
    """Return a data frame as a table of ours, too: the worker makes frames of tables that it reads, and tables of
    frames that it has made."""
    is_for_frames = DATAFRAME in one.kinds and TABLE not in one.kinds
    return replace(one, kinds=(*one.kinds, TABLE)) if is_for_frames else one


def _only_names_a_table(info: ComponentInfo) -> bool:
    """Return whether all that it does is to name a table by its parameters, as FATE's `reader`."""
    outputs: ArtifactInfos = info.outputs
    kinds = [one.kinds for one in outputs.values()]
    return kinds == [(UNRESOLVED,)] and not info.inputs and info.parameters.keys() == {"namespace", "name"}


def _table_by_name(info: ComponentInfo) -> ComponentInfo:
    """Return the component with the named table as its output. Tables are of guests and hosts."""
    return replace(
        info,
        roles=info.roles & {"guest", "host"},
        outputs={key: replace(one, kinds=(TABLE,)) for key, one in info.outputs.items()},
        reads_by_name=True,
        hands_on=lambda _, columns: columns,
        exchanges_messages=False,
        ignores_least_intersection=False,
    )


def _artifacts(sections: Mapping[str, Any]) -> dict[str, ArtifactInfo]:
    """Return the inputs, or the outputs besides metrics, which every worker has."""
    return {
        str(key): ArtifactInfo(
            section=section,
            kinds=tuple(map(str, said["types"])),
            roles=frozenset(map(str, said.get("roles") or ())),
            stages=frozenset(map(str, said.get("stages") or ())),
            is_optional=bool(said.get("optional")),
            is_multi=bool(said.get("is_multi")),
            description=str(said.get("description") or ""),
        )
        for section in (DATA, MODEL) for key, said in (sections.get(section) or {}).items()
    }  # fmt: skip


def _parameter(said: Mapping[str, Any], may_be_required: bool) -> Parameter:
    kind, text = str(said.get("type") or "any"), str(said.get("description") or "")
    expected = f"a value of the type {shown(kind)}" + (f" ({text})" if text else "")
    is_required = may_be_required and not said.get("optional", True)
    return Parameter(expected, _Check(said.get("type_meta")), required=is_required)


class _Check:
    """Whether a value has the form that a JSON Schema asks for. The schema is compiled when it is first asked."""

    def __init__(self, schema: object) -> None:
        self._schema = schema

    def __call__(self, value: object) -> bool:
        try:
            return self._is_valid(value)
        except ValueError:       # a value that is not JSON: the provider decides
            return True

    @cached_property
    def _is_valid(self) -> Callable[[object], bool]:
        from jsonschema_rs import Draft7Validator

        if not isinstance(self._schema, Mapping):
            return lambda _: True
        try:
            return Draft7Validator(_lenient(self._schema), offline=True).is_valid
        except ValueError:       # no schema that this library reads: the provider decides
            return lambda _: True


def _lenient(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema with keys of objects that may be null, and lists there that may be a single value.

    FATE takes both, and its description does not say so."""
    found = {key: _within(value) for key, value in schema.items()}
    if isinstance(properties := schema.get("properties"), Mapping):
        found["properties"] = {key: _or_nothing(one) for key, one in properties.items()}
    return found


def _within(value: object) -> object:
    if isinstance(value, Mapping):
        return _lenient(value)
    return [_within(one) for one in value] if isinstance(value, list) else value


def _or_nothing(schema: object) -> object:
    if not isinstance(schema, Mapping):
        return schema
    single = [_within(schema.get("items", True))] if schema.get("type") == "array" else []
    return {"anyOf": [_lenient(schema), {"type": "null"}, *single]}
