"""The order for a worker that becomes a user's own program: `command.json`, and the names of other files of the worker.

The provider writes the order; the worker process reads it between its fork and its `exec`, makes the preparations
(`engines/local/program_preparation.py`), and becomes the program.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from fate_flow.core.model.program import InputFile, ProgramRules, Secret

ORDER = "command.json"
PEERS = "peers.json"
WORK = "work"


@dataclass(frozen=True)
class Order:
    """The program that the worker becomes, and the rules of this party."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    policy: ProgramRules
    files: tuple[InputFile, ...] = ()
    volumes: tuple[str, ...] = ()
    core_dumps: bool = False
    secrets: tuple[str, ...] = ()        # names; the worker reads the texts itself
    initiator: str = ""                  # the id of the job's initiator
    own: str = ""                        # the id of the party that runs it
    granted: tuple[str, ...] | None = None       # sha256:DIGEST of the programs that it was granted; None: any

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Read the order; None if the worker is not a program. Raises ValueError, KeyError, TypeError if malformed."""
        try:
            value: dict[str, Any] = json.loads((folder / ORDER).read_text())
        except FileNotFoundError:
            return None
        secrets = {
            name: Secret(one["file"], tuple(one["initiators"])) for name, one in value["policy"]["secrets"].items()
        }  # fmt: skip
        policy = {**value["policy"], "allow": tuple(value["policy"]["allow"]), "secrets": secrets}
        return cls(
            tuple(value["argv"]), value["env"], ProgramRules(**policy),
            tuple(InputFile(**one) for one in value["files"]), tuple(value["volumes"]), value["core_dumps"],
            tuple(value["secrets"]), value["initiator"], value["own"], _granted(value.get("granted")),
        )  # fmt: skip


def _granted(value: list[str] | None) -> tuple[str, ...] | None:
    """Return the digests in an order; one of an earlier release has none."""
    return None if value is None else tuple(value)
