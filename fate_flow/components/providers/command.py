"""The provider `command`: programs of the users' own, wrapped in the contract of a component.

Each worker becomes the program. When all ranks have ended well, one more worker of ours, the collector
(`builtin/command.py`), turns the files that they left into outputs, if the task has any.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fate_flow.components.providers.description import ComponentInfo, Parameter
from fate_flow.components.providers.program_order import ORDER, PEERS, WORK, Order
from fate_flow.components.providers.provider import PACKAGE, File, Launch, OwnProvider, Start, component_run
from fate_flow.core.model import program
from fate_flow.core.model.artifact import FILE, TABLE, ArtifactInfo
from fate_flow.core.model.program_scope import Program


@dataclass(frozen=True)
class CommandProvider(OwnProvider):
    """The job names a program for each party, and its parameters say how many workers run it there."""

    name: str = "command"
    has_replicas: bool = True

    @property
    def components(self) -> tuple[ComponentInfo, ...]:
        return (COMMAND,)

    def program(self, parameters: Mapping[str, Any]) -> program.ProgramSpec:
        return program.read_program(parameters)

    def start(self, component: ComponentInfo, launch: Launch) -> Start:
        if launch.program is None:
            collected = program.read_program(launch.parameters).outputs
            kinds = {one.name: TABLE if one.is_table else FILE for one in collected}
            return component_run(launch, kinds, self.python_module(component))      # the collector
        return Start(
            way="exec",
            argv=launch.program.command.argv,
            cwd=launch.folder / WORK,
            stdout=launch.folder / "stdout",
            stderr=launch.folder / "stderr",
            output_max_bytes=launch.rules.output_max_bytes,
            output_setting="commands.output_max_bytes",
            files=(
                File(PEERS, json.dumps(launch.program.peers)),
                # Only this user may read it, since it may contain tokens.
                File(ORDER, _order(launch, launch.program).to_json(), mode=0o600),
            ),
        )

    def leaves_result(self, folder: Path) -> bool:
        """Return False for a program; the collector leaves one."""
        return not (folder / ORDER).exists()


def _order(launch: Launch, wanted: Program) -> Order:
    command = wanted.command
    env = {
        **launch.program_env,
        **command.env,
        **wanted.env,
        "FATE_FLOW_TASK_CONFIG": str(launch.config),
        "FATE_FLOW_PEERS_FILE": str(launch.folder / PEERS),
        "FATE_FLOW_EXCHANGE_URL": launch.exchange_url,
        "FATE_FLOW_EXCHANGE_TOKEN": launch.exchange_token,
        "FATE_FLOW_PYTHON_PATH": str(PACKAGE.parent),
    }
    if launch.exchange_servers:
        env["FATE_FLOW_EXCHANGE_SERVERS"] = launch.exchange_servers
    return Order(
        command.argv, env, launch.rules, command.files, command.volumes, command.core_dumps, command.secrets,
        wanted.initiator, launch.party_id, None if wanted.granted is None else tuple(sorted(wanted.granted)),
    )  # fmt: skip


COMMAND_PROVIDER = CommandProvider()

_EVERYWHERE = frozenset({"guest", "host", "arbiter", "local"})

COMMAND = ComponentInfo(
    provider=COMMAND_PROVIDER,
    module="Command",
    name="command",
    description="runs a program of the user's own at each party that allows it",
    roles=_EVERYWHERE,
    parameter_group="CommandParam",
    parameters={      # `program.problems` checks their values together
        key: Parameter(expected, lambda _: True, required=key == "command")
        for key, expected in program.PARAMETERS.items()
    },
    refuses_unknown=True,                    # such a task exists only here, so no other client sends more
    inputs={"data": ArtifactInfo(is_optional=True)},
    takes_other_keys=True,
    names_outputs=True,
    examine=program.problems,
    tolerates_missing_roles=_EVERYWHERE,     # the author of the program knows whether the others can go on
    starts_without_roles=_EVERYWHERE,
)
