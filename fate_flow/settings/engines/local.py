"""The section of an engine of kind `local`, and FATE's section for the size of the first one."""

from __future__ import annotations

from fate_flow.core.model.resources import LOCAL, EngineSize
from fate_flow.settings.engines.engine_settings import DEFAULT_CORES, EngineSettings, read_size
from fate_flow.settings.engines.ray_of_programs import read_ray_of_programs
from fate_flow.settings.reading.section import Section

IN_FATE = "fate_on_standalone"
"""FATE's section, from which the engine `local` has its size in older configurations."""


def read_local(section: Section) -> EngineSettings:
    return EngineSettings(section.path, read_size(section), section.values, LOCAL, read_ray_of_programs(section))


def read_standalone(section: Section) -> EngineSettings:
    """Read FATE's section."""
    config = section.get("standalone", {})
    one = section.section("standalone")
    nodes = one.whole("nodes", 1, 1)
    size = EngineSize(
        nodes=nodes,
        cores=one.whole("cores_per_node", DEFAULT_CORES, 0) * nodes,
        memory=one.whole("memory_per_node", 0) * nodes,
        max_cores_percent_per_job=one.share("max_cores_percent_per_job", 1.0),
    )
    one.refuse_others()
    section.refuse_others()
    return EngineSettings(IN_FATE, size, config, LOCAL)
