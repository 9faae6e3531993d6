"""Servers of parties with FATE's components, which are described once for all of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fate_flow.components.providers.described import description_file, warm_socket
from fate_flow.core.model.modules import ProviderPlace
from fate_flow.server.periodic.describer import Describer
from tests.kit.fate.jobs import FATE
from tests.kit.servers.party_servers import Cluster, running_cluster
from tests.kit.waiting import eventually

PROVIDERS = "providers"
"""The folder of a home."""
READY_SECONDS = 300.0


def fate_at(python: Path) -> ProviderPlace:
    return ProviderPlace("fate", FATE, str(python), "fate.components")


def described(python: Path, folder: Path) -> Path:
    """The file in this folder with the descriptions of all components, as a server writes it. Each server would take
    seven seconds of a processor for the same."""
    folder.mkdir(mode=0o700, exist_ok=True)
    Describer({}, folder, lambda: None).look(fate_at(python))
    return description_file(folder, fate_at(python))


@contextmanager
def fate_cluster(
    root: Path, party_ids: Sequence[str], python: Path, description: Path, base_port: int,
    overlay: Mapping[str, Any] | None = None, over_tls: bool = False,
) -> Iterator[Cluster]:
    """Servers whose provider of FATE's components is ready, each with a process that has imported them."""
    conf = {**(overlay or {}), "providers": {"fate": {"version": FATE, "python": str(python)}}}
    for party_id in party_ids:
        folder = root / party_id / PROVIDERS
        folder.mkdir(parents=True, mode=0o700)
        shutil.copy2(description, folder)
    overlays = dict.fromkeys(party_ids, conf)
    with running_cluster(root, party_ids, base_port=base_port, overlays=overlays, over_tls=over_tls) as cluster:
        for party in cluster.parties.values():
            wait_for_fate(cluster, party.party_id, python)
        yield cluster


def wait_for_fate(cluster: Cluster, party_id: str, python: Path) -> None:
    """Wait until this party has looked at its provider, and can fork workers."""
    party = cluster.parties[party_id]
    socket = warm_socket(party.home / PROVIDERS, fate_at(python))
    eventually(lambda: party.ask("provider/get")["fate"][FATE]["is_ready"], "FATE's components", READY_SECONDS)
    eventually(socket.exists, f"the warm process of party {party_id}", READY_SECONDS)
