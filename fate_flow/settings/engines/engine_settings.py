"""What the configuration says about one engine, whatever its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fate_flow.core.model.resources import LOCAL, EngineSize
from fate_flow.settings.reading.section import Section

DEFAULT_CORES = 20


@dataclass(frozen=True)
class EngineSettings:
    """The configuration of one engine of the party. A kind with further keys has a subclass with their values."""

    section: str                                                  # the key of the configuration
    size: EngineSize
    config: Mapping[str, Any] = field(default_factory=dict)       # as it is in the file
    kind: str = LOCAL
    program_env: Mapping[str, str] = field(default_factory=dict)  # of programs on it
    has_queues: bool = False                                      # queues of its own, which `queues` may name
    devices: tuple[str, ...] = ()                                 # the GPUs that this server gives to workers
    labels: Mapping[str, Any] = field(default_factory=dict)       # words of jobs for nodes, with what they stand for
    parties: frozenset[str] | None = None                         # whose jobs may use it, with own ones; None: all


ONLY_DEFAULTS = EngineSettings(f"engines.{LOCAL}", EngineSize(nodes=1, cores=DEFAULT_CORES))
"""The engine `local` of a configuration that says nothing about it."""


def read_size(section: Section, nodes: int = 1) -> EngineSize:
    """Read the keys that say how much of an engine jobs may reserve; every kind has them. They are for all nodes."""
    return EngineSize(
        nodes=nodes,
        cores=section.whole("cores", DEFAULT_CORES),
        memory=section.whole("memory", 0),
        max_cores_percent_per_job=section.share("max_cores_percent_per_job", 1.0),
    )
