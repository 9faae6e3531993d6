"""The keys of an engine by which programs on it find the Ray cluster of their party."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.program_scope import ray_environment
from fate_flow.settings.reading.section import Section

_ADDRESS = re.compile(r"(ray://)?[A-Za-z0-9.-]+:[0-9]{1,5}")


def read_ray_of_programs(section: Section) -> Mapping[str, str]:
    """Return the variables for programs. Raises BadSettings."""
    address, token_file = section.text("ray_address"), section.full_path("ray_token_file")
    if address and not _ADDRESS.fullmatch(address):
        raise BadSettings(
            f"{section.name('ray_address')}: {address!r} is not HOST:PORT or ray://HOST:PORT, as ray.init takes it "
            "(the address of the Jobs API is another one)"
        )
    if token_file and not address:
        raise BadSettings(f"{section.name('ray_token_file')}: is given without {section.name('ray_address')}")
    return ray_environment(address, token_file)
