"""The table of the kinds of engines: how each is built from its settings. A new kind gets a row here, and one in
`fate_flow/settings/engines/reader.py`, which reads its section."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fate_flow.core.model.resources import LOCAL
from fate_flow.server.engines.kubernetes_workers import build_kubernetes
from fate_flow.server.engines.local_workers import build_local
from fate_flow.server.engines.parts import EngineParts
from fate_flow.server.engines.placed_workers import build_slurm
from fate_flow.server.engines.ray_workers import build_ray
from fate_flow.services.context.ports import Engine, Engines, PartyEngine
from fate_flow.settings.engines.engine_settings import EngineSettings
from fate_flow.settings.engines.kubernetes import KUBERNETES
from fate_flow.settings.engines.ray import RAY
from fate_flow.settings.engines.slurm import SLURM

BUILDERS: Mapping[str, Callable[[EngineParts, EngineSettings], Engine]] = {
    LOCAL: build_local, SLURM: build_slurm, RAY: build_ray, KUBERNETES: build_kubernetes,
}
"""What builds an engine, by its kind."""


def build_engines(parts: EngineParts) -> Engines:
    """Return the engines that the configuration names, the default first."""
    return Engines({
        name: PartyEngine(BUILDERS[one.kind](parts, one), one.size, one.devices, frozenset(one.labels))
        for name, one in parts.settings.engines.items()
    })
