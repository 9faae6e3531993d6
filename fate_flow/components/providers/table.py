"""The table of providers, and with it all components of this release."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType

from fate_flow.components.providers.builtin import BUILTIN_PROVIDER
from fate_flow.components.providers.command import COMMAND_PROVIDER
from fate_flow.components.providers.description import ComponentInfo
from fate_flow.components.providers.provider import Provider


class ProviderTable:
    """Providers by their names, and their components by the names of their modules."""

    def __init__(self, *providers: Provider) -> None:
        self.by_name: Mapping[str, Provider] = MappingProxyType({one.name: one for one in providers})
        self.components: Mapping[str, ComponentInfo] = MappingProxyType(
            {one.module: one for provider in providers for one in provider.components}
        )

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


PROVIDERS = ProviderTable(BUILTIN_PROVIDER, COMMAND_PROVIDER)

CATALOGUE = PROVIDERS.components
"""All components, by the names of their modules."""
