"""Which component a task of a DAG means: its `component_ref`, and the provider that the task or the job names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fate_flow.core.model.grammar import shown
from fate_flow.core.model.modules import KnowsProviders, ModuleInfo, find_module
from fate_flow.jobspec.text.document import Node, nearest

DEVICE = "local"
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_-]{0,29})(?::([^:@\s]{1,30}))?(?:@(\w{1,20}))?")


@dataclass(frozen=True)
class NamedProvider:
    """A provider as a DAG names it: `fate:2.2.0@local`, of which the name alone is needed."""

    name: str
    version: str = ""

    def __str__(self) -> str:
        return f"{self.name}:{self.version}@{DEVICE}"

    @property
    def in_dsl(self) -> str:
        return f"{self.name}@{self.version}" if self.version else self.name


def read_provider(node: Node) -> NamedProvider | None:
    """Return the provider that a node names; None, perhaps with a problem, if it names none."""
    if not node.is_given:
        return None
    found = _NAME.fullmatch(node.value) if isinstance(node.value, str) else None
    if found is None:
        node.wrong(f"{shown(node.value)} is not the name of a provider, such as fate:2.2.0@{DEVICE}")
        return None
    name, version, device = found.groups()
    if device not in (None, DEVICE):
        node.wrong(f"{shown(node.value)}: the device {shown(device)} is not offered; providers are {DEVICE} here")
        return None
    return NamedProvider(name, version or "")


def default_provider(modules: Mapping[str, ModuleInfo]) -> NamedProvider | None:
    """Return the provider of components that name none: the only one that is configured, or the one named `fate`."""
    states = modules.states() if isinstance(modules, KnowsProviders) else ()
    fitting = [one for one in states if len(states) == 1 or one.name == "fate"]
    return NamedProvider(fitting[0].name, fitting[0].version) if fitting else None


def own_provider(modules: Mapping[str, ModuleInfo]) -> NamedProvider | None:
    """Return the provider of the components that this package brings; None if there is none of them."""
    own = next((one.provider for name, one in modules.items() if "." not in name), None)
    return None if own is None else NamedProvider(own.package, own.version)


def own_component(modules: Mapping[str, ModuleInfo], name: str) -> str:
    """Return the module of this package with this name, written `SecureSum`, `secure_sum` or `securesum`; or ""."""
    plain = _plain(name)
    return next((one for one in modules if "." not in one and _plain(one) == plain), "")


def find_component(modules: Mapping[str, ModuleInfo], provider: NamedProvider | None, ref: str) -> tuple[str, str]:
    """Return the module, else "", and why there is none, else ""."""
    own = own_provider(modules)
    if provider is not None and (own is None or provider.name != own.name):
        found, why_not = find_module(modules, provider.in_dsl, ref)
        return found, "" if found else why_not or f"{shown(ref)} is no component of {provider.in_dsl}"
    if provider is not None and own is not None and provider.version not in ("", own.version):
        return "", f"this server has {own.name} {own.version}, not version {shown(provider.version)}"
    found = own_component(modules, ref)
    known = [one for one in modules if "." not in one]
    return found, "" if found else f"{shown(ref)} is not known{nearest(ref, known) or '; known: ' + ', '.join(known)}"


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
