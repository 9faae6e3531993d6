"""The section of an engine of kind `ray`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.resources import EngineSize
from fate_flow.settings.engines.engine_settings import EngineSettings, read_size
from fate_flow.settings.engines.labels import read_labels
from fate_flow.settings.engines.partners import read_partners
from fate_flow.settings.engines.ray_of_programs import read_ray_of_programs
from fate_flow.settings.engines.scratch import SCRATCH, read_scratch, read_shared_home
from fate_flow.settings.reading.section import Section, split_url

RAY = "ray"
_FORM = "is not of the form http://HOST:PORT or https://HOST:PORT"


@dataclass(frozen=True)
class RayJobs:
    """What jobs ask Ray for, besides what each worker needs."""

    resources: Mapping[str, float] = field(default_factory=dict)      # custom ones, for each worker
    runtime_env: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RaySettings(EngineSettings):
    """The configuration of one cluster."""

    size: EngineSize = field(default_factory=lambda: EngineSize(1, 0))
    kind: str = RAY
    address: str = ""                        # of the Jobs API, without a slash at the end
    token_file: Path | None = None
    ca_file: Path | None = None              # for https; None: the usual authorities
    own: RayJobs = field(default_factory=RayJobs)
    partners: Mapping[str, RayJobs] = field(default_factory=dict)     # by party id
    driver_cores: int = 0                    # of a worker, set aside by Ray; 0: all that it has reserved
    python: Path | None = None               # on the nodes; None: that of the server
    longest_pending: float = 3600.0          # seconds; 0: for ever
    poll_seconds: float = 5.0
    settle_seconds: float = 30.0
    shared_home: bool = True                 # whether the nodes see the home; else workers are staged
    scratch: Path = SCRATCH                  # on nodes without the home: where folders of workers are made


def read_ray(section: Section) -> RaySettings:
    """Raises BadSettings."""
    own, shared_home = _jobs(section, RayJobs()), read_shared_home(section)
    if not shared_home:
        _check_without_home(section)
    return RaySettings(
        section=section.path,
        size=replace(read_size(section), gpus=section.whole("gpus", 0)),
        labels=read_labels(section, _resources_of),
        config=section.values,
        program_env=read_ray_of_programs(section),
        address=_address(section),
        token_file=section.path_with_links("token_file"),
        ca_file=section.path_with_links("ca_file"),
        own=own,
        partners=read_partners(section, own, _jobs),
        driver_cores=section.whole("driver_cores", 0),
        python=section.path_with_links("python"),
        longest_pending=section.number("longest_pending", 3600.0),
        poll_seconds=section.number("poll_seconds", 5.0, 0.1),
        settle_seconds=section.number("settle_seconds", 30.0),
        shared_home=shared_home,
        scratch=read_scratch(section),
    )


def _check_without_home(section: Section) -> None:
    """Refuse what cannot be where workers are staged. Raises BadSettings."""
    if not section.text("token_file"):
        raise BadSettings(
            f"{section.name('shared_home')}: false needs {section.name('token_file')}: without a token of its own, Ray "
            "shows the claim tokens of workers to everybody who reaches it"
        )
    path = section.text("ray_token_file")
    if path and not path.startswith("/"):
        raise BadSettings(
            f"{section.name('ray_token_file')}: {path!r} has to be an absolute path, that of a file of the nodes: they "
            f"do not see this server's ({section.name('shared_home')}: false)"
        )


def _address(section: Section) -> str:
    name, url = section.name("address"), section.text("address")
    if not url:
        raise BadSettings(f"{name}: is missing: the address of the Jobs API of Ray, such as http://127.0.0.1:8265")
    parts = split_url(url, name)
    is_address = parts.scheme in ("http", "https") and parts.hostname and parts.path in ("", "/")
    if parts.username or parts.password:        # which is no text for a log
        raise BadSettings(f"{name}: has a user or a password; Ray takes a token (token_file)")
    if not is_address or parts.query or parts.fragment:
        raise BadSettings(f"{name}: {url!r} {_FORM}, without a path or a query")
    return f"{parts.scheme}://{parts.netloc}"


def _resources_of(labels: Section, word: str) -> Mapping[str, float]:
    """Return the custom resources that a label stands for."""
    one = labels.section(word)
    found = {str(name): one.number(name, 0.0) for name in one.names()}
    if not found:
        raise BadSettings(f"{labels.name(word)}: names no custom resources of nodes, such as {{bigmem: 0.001}}")
    return found


def _jobs(section: Section, base: RayJobs) -> RayJobs:
    values = section.get("resources")
    resources = base.resources
    if values is not None:
        one = section.section("resources")
        resources = {str(name): one.number(name, 0.0) for name in one.names()}
    runtime_env = section.get("runtime_env", base.runtime_env)
    if not isinstance(runtime_env, dict) and runtime_env is not base.runtime_env:
        raise BadSettings(f"{section.name('runtime_env')}: is not a mapping of keys")
    try:
        json.dumps(runtime_env)
    except (TypeError, ValueError) as error:
        raise BadSettings(f"{section.name('runtime_env')}: cannot be written as JSON: {error}") from error
    variables = runtime_env.get("env_vars") or {}
    if not isinstance(variables, dict) or not all(isinstance(one, str) for one in variables.values()):
        raise BadSettings(f"{section.name('runtime_env.env_vars')}: is not a mapping of names to texts")
    return RayJobs(resources, runtime_env)
