"""The table of providers, and with it all components that a party has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from fate_flow.components.providers.builtin import BUILTIN_PROVIDER
from fate_flow.components.providers.command import COMMAND_PROVIDER
from fate_flow.components.providers.description import ComponentInfo
from fate_flow.components.providers.description_document import description_document
from fate_flow.components.providers.external import ExternalProvider
from fate_flow.components.providers.provider import Provider
from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.grammar import shown
from fate_flow.core.model.modules import ProviderPlace, ProviderState
from fate_flow.jobspec.text.document import nearest


class Catalogue(Mapping[str, ComponentInfo]):
    """All components of a table of providers, by the names of their modules.

    Components of an external provider appear when they have been described."""

    def __init__(self, party_id: str, fixed: Mapping[str, ComponentInfo], external: Mapping[str, ExternalProvider]):
        """`party_id`: of this party, for messages; empty if it is not known."""
        self._who = f"party {party_id}" if party_id else "this party"
        self._fixed, self._external = fixed, external
        self._packages = frozenset(one.provider.package for one in fixed.values())

    def __getitem__(self, module: str) -> ComponentInfo:
        if module in self._fixed:
            return self._fixed[module]
        provider = self._external.get(module.partition(".")[0])
        if provider is None:
            raise KeyError(module)
        return provider.by_module()[module]

    def __iter__(self) -> Iterator[str]:
        yield from self._fixed
        for provider in self._external.values():
            yield from provider.by_module()

    def __len__(self) -> int:
        return len(self._fixed) + sum(len(one.by_module()) for one in self._external.values())

    def states(self) -> tuple[ProviderState, ...]:
        return tuple(provider.state for provider in self._external.values())

    def document_of(self, module: str) -> Mapping[str, object]:
        """Return the description of a component of this table, as its external provider has written it, or in the same
        form. Raises KeyError."""
        provider = self._external.get(module.partition(".")[0])
        if provider is None or module in self._fixed:
            return description_document(self._fixed[module])
        return {"component": provider.document_of(module)}

    def find_of(self, provider: str, module: str) -> tuple[str, str]:
        """Return the name in this table, else "", and why the module cannot be used, else "".

        `provider`: as a document names it, such as `fate@2.2.0`; empty: it names none."""
        if module in self._fixed:        # FATE's own documents name the provider `fate` for what is ours here
            return module, ""
        named, _, version = provider.partition("@")
        prefix, dot, name = module.partition(".")
        if not dot:
            prefix, name = named, module
        if not dot and (prefix in self._packages or (prefix not in self._external and not version)):
            return "", ""                # such as a component that only FATE 1 has
        if dot and named and named != prefix:
            return "", f"{shown(module)} is a component of the provider {shown(prefix)}, not of {shown(named)}"
        return self._find_at(prefix, version, name)

    def _find_at(self, prefix: str, version: str, name: str) -> tuple[str, str]:
        one = self._external.get(prefix)
        if one is None:
            known = ", ".join(f"{each.name} {each.version}" for each in self._external.values()) or "none"
            return "", (
                f"{self._who} has no provider {shown(prefix)}, from which {shown(name)} would come; it has: {known} "
                "(providers, in its configuration)"
            )
        if version and version != one.version:
            return "", f"{self._who} has {one.name} {one.version}, not version {shown(version)}"
        if why_not := one.state.why_not:
            return "", f"{self._who} cannot use its provider {one.name} {one.version} now: {why_not}"
        found, here = f"{prefix}.{name}", one.by_module()
        if found in here:
            return found, ""
        names = [each.name for each in here.values()]
        return "", (
            f"{self._who} has {one.name} {one.version}, which has no component {shown(name)}"
            f"{nearest(name, names) or '; it has: ' + ', '.join(sorted(names))}"
        )


class ProviderTable:
    """Providers by their names, and their components by the names of their modules."""

    def __init__(self, *providers: Provider, party_id: str = "") -> None:
        self.by_name: Mapping[str, Provider] = MappingProxyType({one.name: one for one in providers})
        external = {one.name: one for one in providers if isinstance(one, ExternalProvider)}
        fixed = {
            one.module: one for provider in providers if provider.name not in external for one in provider.components
        }
        self.components = Catalogue(party_id, MappingProxyType(fixed), external)

    def of(self, component: ComponentInfo) -> Provider:
        """Return the provider that the component comes from."""
        return self.by_name[component.provider.name]

    def find(self, name: str) -> ComponentInfo | None:
        """Return the component with this name, written `SecureSum`, `secure_sum` or `securesum`; None if there is
        none."""
        return self._by_plain_name.get(_without_case(name))

    @cached_property
    def _by_plain_name(self) -> Mapping[str, ComponentInfo]:
        return {_without_case(one.module): one for one in self.components.values()}


def _without_case(name: str) -> str:
    return name.replace("_", "").lower()


OWN = (BUILTIN_PROVIDER, COMMAND_PROVIDER)

PROVIDERS = ProviderTable(*OWN)
"""The providers of this package."""

CATALOGUE = PROVIDERS.components
"""Their components, by the names of their modules."""


def provider_table(party_id: str, places: Mapping[str, ProviderPlace], folder: Path) -> ProviderTable:
    """Return the table of a party: the providers of this package, and those of its configuration.

    `folder`: with the files of what providers have said. Raises BadSettings for a name that one of ours has."""
    taken = {name for own in OWN for name in (own.name, own.package)}
    for name in sorted(taken & places.keys()):
        raise BadSettings(f"providers.{name}: this is the name of a provider of fate_flow itself; choose another one")
    return ProviderTable(*OWN, *(ExternalProvider(one, folder) for one in places.values()), party_id=party_id)
