"""The section of an engine of kind `local`, and FATE's section for the size of the first one."""

from __future__ import annotations

import re
from dataclasses import replace

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.resources import LOCAL, EngineSize
from fate_flow.settings.engines.engine_settings import DEFAULT_CORES, EngineSettings, read_size
from fate_flow.settings.engines.labels import read_own_labels
from fate_flow.settings.engines.ray_of_programs import read_ray_of_programs
from fate_flow.settings.reading.section import Section, collected

IN_FATE = "fate_on_standalone"
"""FATE's section, from which the engine `local` has its size in older configurations."""


_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_:.-]{0,99}")
_MOST_DEVICES = 1_024


def read_local(section: Section) -> EngineSettings:
    devices = _devices(section) or ()
    size = replace(read_size(section), gpus=len(devices))
    return EngineSettings(
        section.path, size, section.values, LOCAL, read_ray_of_programs(section), devices=devices,
        labels=read_own_labels(section),
    )


@collected
def _devices(section: Section) -> tuple[str, ...]:
    """Return the GPUs as CUDA_VISIBLE_DEVICES names them; a number stands for those from 0 on."""
    given, name = section.get("gpus", 0), section.name("gpus")
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= _MOST_DEVICES:
        return tuple(map(str, range(given)))
    if not isinstance(given, list):
        raise BadSettings(f"{name}: {given!r} is neither a number from 0 to {_MOST_DEVICES} nor a list of devices")
    found = tuple(map(str, given))
    for one in found:
        if not _DEVICE.fullmatch(one):
            raise BadSettings(f"{name}: {one!r} is not a device as in CUDA_VISIBLE_DEVICES, such as 0 or GPU-8f2a")
        if found.count(one) > 1:
            raise BadSettings(f"{name}: {one!r} is there twice")
    return found


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
