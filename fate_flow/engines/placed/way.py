"""How a worker on a node of a cluster reaches its server, where nodes have a network: over TLS, with the server's pin.

Its documents name a port of loopback at the server's machine. So the process that runs it opens a port of loopback on
the node, carries what comes there to the listener for workers, and puts this port into the documents. The token in them
is that of the attempt, and the server refuses it when the attempt is over.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from fate_flow.components.providers.program_order import ORDER
from fate_flow.core.text.yaml_text import read_yaml_text, yaml_text
from fate_flow.engines.local.worker import read_json, write_atomically
from fate_flow.engines.staged.loopback import Loopback
from fate_flow.engines.staged.pinned import ServerAt
from fate_flow.engines.staged.places import ADDRESS, PIN

_CONFIG = "config.yaml"


def way_of(env: Mapping[str, str]) -> Loopback | None:
    """Return the way to the listener that the variables of a job name, with a port of this machine. It carries nothing
    before `begin`. None if they name no listener: the worker has the folder alone. Raises ValueError."""
    if ADDRESS not in env:
        return None
    return Loopback(ServerAt.of(env[ADDRESS], env.get(PIN, "")), _note)


def _note(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def lead_to(folder: Path, port: int) -> None:
    """Let the documents of a worker, which this process has claimed, name a port of this machine."""
    config = read_yaml_text((folder / _CONFIG).read_text(encoding="utf-8"))
    exchange = config["conf"]["federation"]["metadata"]["exchange"]
    exchange["url"] = url = _at(exchange["url"], port)
    write_atomically(folder / _CONFIG, yaml_text(config), mode=0o600, is_durable=False)
    order = read_json(folder / ORDER)
    if order is not None:
        order["env"]["FATE_FLOW_EXCHANGE_URL"] = url
        write_atomically(folder / ORDER, json.dumps(order), mode=0o600, is_durable=False)


def _at(url: str, port: int) -> str:
    return urlunsplit(urlsplit(url)._replace(netloc=f"127.0.0.1:{port}"))
