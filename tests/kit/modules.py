"""A component that takes any parameters, for servers of tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fate_flow.components.providers.builtin import BUILTIN_PROVIDER
from fate_flow.core.model.artifact import ArtifactInfo, ArtifactInfos
from fate_flow.core.model.modules import ProviderInfo

ROLES = frozenset({"guest", "host", "arbiter", "local"})


@dataclass(frozen=True)
class Module:
    """It has every role, and refuses no parameters."""

    provider: ProviderInfo = BUILTIN_PROVIDER
    roles: frozenset[str] = ROLES
    default_task_cores: int | None = None
    tolerates_missing_roles: frozenset[str] = frozenset({"host"})
    starts_without_roles: frozenset[str] = frozenset()
    stages: frozenset[str] = frozenset()
    inputs: ArtifactInfos = field(default_factory=dict)
    outputs: ArtifactInfos = field(default_factory=lambda: dict.fromkeys(("data", "other"), ArtifactInfo()))
    takes_other_keys: bool = True
    origin: str = ""
    file_read: str = ""
    file_written: str = ""
    uses_connector: bool = False

    def check(self, parameters: Mapping[str, object], role: str) -> list[str]:
        return []

    def table_origin(self, parameters: Mapping[str, object]) -> str:
        return self.origin
