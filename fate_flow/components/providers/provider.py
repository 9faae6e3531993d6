"""What a provider of components does: it describes them, and says how the engine starts a worker of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from fate_flow import __version__
from fate_flow.components.providers.description import ComponentInfo
from fate_flow.core.model.modules import ProviderInfo
from fate_flow.core.model.program import ProgramRules
from fate_flow.core.model.program_scope import Program

PACKAGE = Path(__file__).parents[2]
"""The folder of this package. The one above it is where a Python program finds our client of the exchange."""


@dataclass(frozen=True)
class Launch:
    """A worker that is to be started, and what this party gives it. All paths are absolute."""

    worker_id: str
    folder: Path                         # its own; it may not exist yet
    config: Path                         # its task configuration (docs/reference/contracts.md)
    result: Path                         # the result file that the contract asks for
    logs: Path                           # the folder for the output of built-in components
    log_max_bytes: int                   # of stdout and of stderr there (`log.file_max_bytes`); 0: no limit
    parameters: Mapping[str, Any]
    program: Program | None              # the program of the job that it runs; None: the component's own code
    rules: ProgramRules                  # which programs the party allows
    party_id: str                        # of this party
    role: str
    stage: str                           # of the task
    exchange_url: str
    exchange_token: str = field(repr=False)
    program_env: Mapping[str, str] = field(default_factory=dict)     # of a program on the engine; its job may change it
    exchange_servers: str = ""           # the folder with the addresses of the party's servers, if it has several


@dataclass(frozen=True)
class File:
    """A file that the worker finds in its folder."""

    name: str
    text: str = field(repr=False)
    mode: int = 0o644


@dataclass(frozen=True)
class Start:
    """How the engine starts a worker.

    `fork`: a fork of the spawner calls `main(argv)` of `fate_flow.components.__main__`, with `imports` imported.
    `exec`: the process becomes the program `argv`; if its folder has an order (`program_order.py`), it becomes the
    program of the order instead, after the checks and preparations for it."""

    way: Literal["fork", "exec"]
    argv: tuple[str, ...]
    cwd: Path
    stdout: Path
    stderr: Path
    output_max_bytes: int                # kept of stdout and of stderr; 0: all of it
    output_setting: str                  # the key of the configuration that this limit comes from
    env: Mapping[str, str] = field(default_factory=dict, repr=False)      # added to the server's own
    files: tuple[File, ...] = ()
    outputs: Mapping[str, str] = field(default_factory=dict)    # kinds by key, if it makes any besides metrics
    converts: Mapping[str, str] = field(default_factory=dict)   # by input: the kind that the worker makes of tables
    runs: str = ""                       # the component in the task configuration, if it is not the task's own
    parameters: Mapping[str, Any] | None = None       # in the task configuration, if they are not the task's own
    imports: tuple[str, ...] = ()        # modules that a fork needs; the spawner keeps them for later forks


class Provider(ProviderInfo, Protocol):
    """Describes components and starts their workers. A component validates its parameters (`ComponentInfo.check`)."""

    @property
    def components(self) -> tuple[ComponentInfo, ...]: ...

    def python_module(self, component: ComponentInfo) -> str:
        """Return the module with the component's function `run`; empty if its workers do not fork the spawner."""

    def start(self, component: ComponentInfo, launch: Launch) -> Start:
        """Return how to start this worker. The call changes nothing, and is repeated when a launch is."""

    def leaves_result(self, folder: Path) -> bool:
        """Return whether the worker of this folder ends with a result file; if not, its exit code decides alone."""


@dataclass(frozen=True)
class OwnProvider:
    """What the providers of this package have in common."""

    package: str = "fate_flow"
    version: str = __version__
    path: str = str(PACKAGE / "components")

    def python_module(self, component: ComponentInfo) -> str:
        return f"fate_flow.components.builtin.{component.name}"


def component_run(launch: Launch, outputs: Mapping[str, str], module: str) -> Start:
    """Return the start of a worker that runs this module of ours."""
    return Start(
        way="fork",
        argv=("component", "execute", "--config", str(launch.config),
              "--execution-final-meta-path", str(launch.result)),
        cwd=launch.folder,
        stdout=launch.logs / f"task_executor_{launch.worker_id}_std.log",
        stderr=launch.logs / f"task_executor_{launch.worker_id}_err.log",
        output_max_bytes=launch.log_max_bytes,
        output_setting="log.file_max_bytes",
        outputs=outputs,
        imports=(module,),
    )  # fmt: skip
