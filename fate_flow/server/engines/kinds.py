"""The table of the kinds of engines: how each is built from its settings. A new kind gets a row here, and one in
`fate_flow/settings/engines/reader.py`, which reads its section."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import cast

from fate_flow.core.model.job import Worker
from fate_flow.core.model.resources import LOCAL
from fate_flow.server.engines.parts import EngineParts
from fate_flow.services.context.ports import Engine, Engines, PartyEngine
from fate_flow.settings.engines.engine_settings import EngineSettings
from fate_flow.settings.engines.kubernetes import KUBERNETES
from fate_flow.settings.engines.ray import RAY, RaySettings
from fate_flow.settings.engines.slurm import SLURM
from fate_flow.settings.settings import Settings

Builder = Callable[[EngineParts, EngineSettings], Engine]

BUILDERS: Mapping[str, tuple[str, str]] = {
    LOCAL: ("fate_flow.server.engines.local_workers", "build_local"),
    SLURM: ("fate_flow.server.engines.placed_workers", "build_slurm"),
    RAY: ("fate_flow.server.engines.ray_workers", "build_ray"),
    KUBERNETES: ("fate_flow.server.engines.kubernetes_workers", "build_kubernetes"),
}
"""The module and its function that builds an engine, by kind: servers import those of their kinds alone."""


def import_engines(settings: Settings) -> None:
    """Import what builds the engines of the configuration: before the fork, which shares its memory."""
    for one in settings.engines.values():
        _builder(one.kind)


def build_engines(parts: EngineParts) -> Engines:
    """Return the engines that the configuration names, the default first."""
    return Engines({
        name: PartyEngine(_builder(one.kind)(parts, one), one.size, one.devices, frozenset(one.labels))
        for name, one in parts.settings.engines.items()
    })


def outputs_of_jobs(settings: Settings, secret: bytes) -> Callable[[Worker], str]:
    """Return what reads the output of the job of a worker whose token is given for a claim token."""
    if not any(isinstance(one, RaySettings) and not one.shared_home for one in settings.engines.values()):
        return lambda _: ""
    module, _ = BUILDERS[RAY]
    return cast(Callable[[Worker], str], import_module(module).printed_by_jobs(settings, secret))


def _builder(kind: str) -> Builder:
    module, function = BUILDERS[kind]
    return cast(Builder, getattr(import_module(module), function))
