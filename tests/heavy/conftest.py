"""Three real parties that know each other by their keys, and the Pythons of environments with the packages."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import psutil
import pytest

from tests.kit.fate.jobs import Fate
from tests.kit.fate.rows import BANK, LABEL, NAMESPACE, OF_BANK, OF_TELECOM, TELECOM, csv_of, everybody, give
from tests.kit.fate.servers import described, fate_cluster
from tests.kit.servers.heavy import EXAMPLES
from tests.kit.servers.lending import PARTIES, Servers, a_root
from tests.kit.servers.party_servers import BASE_PORT, Cluster, processes_of, running_cluster
from tests.kit.waiting import eventually

COMMANDS = ("flower-python", "spu-python", "xgboost-python")
"""Programs that the examples find in the PATH of a party's server; each party has its own."""


@pytest.fixture(scope="session")
def heavy_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("heavy")


@pytest.fixture(scope="session")
def heavy_servers(heavy_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    bin_folder = heavy_root / "bin"
    bin_folder.mkdir()
    for name in COMMANDS:
        (bin_folder / name).touch(0o700)

    def rules(party_id: str) -> dict[str, object]:
        rows = heavy_root / "rows" / party_id
        rows.mkdir(parents=True, exist_ok=True)
        allow = [str(bin_folder / name) for name in COMMANDS]
        return {
            "enabled": True, "allow": allow, "files_root": str(EXAMPLES), "volumes": {"rows": str(rows)},
            "share_logs": True,
        }  # fmt: skip

    overlays = {party_id: {"commands": rules(party_id)} for party_id in PARTIES}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{bin_folder}:{os.environ['PATH']}")

        def start() -> AbstractContextManager[Cluster]:
            root = a_root(tmp_path_factory)
            return running_cluster(root, PARTIES, base_port=BASE_PORT + 140, overlays=overlays, over_tls=True)

        with Servers(start) as servers:
            yield servers


@pytest.fixture
def parties(heavy_servers: Servers, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with heavy_servers.lent(request.node.nodeid) as found:
        yield found


@pytest.fixture(scope="session")
def python_of() -> Callable[[str], Path]:
    """The Python of an environment of `bin/_environment.py`, by its name."""

    def found(name: str) -> Path:
        python = os.environ.get(f"FATE_FLOW_TEST_{name.upper()}")
        if not python:
            pytest.skip(f"FATE_FLOW_TEST_{name.upper()} names no Python (bin/test --heavy makes an environment)")
        return Path(python)

    return found


@pytest.fixture(scope="session")
def description_of_fate(python_of: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return described(python_of("fate"), tmp_path_factory.mktemp("description") / "of fate")


@pytest.fixture(scope="session")
def fate_servers(
    python_of: Callable[[str], Path], description_of_fate: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    python = python_of("fate")

    def start() -> AbstractContextManager[Cluster]:
        root = a_root(tmp_path_factory)
        return fate_cluster(root, PARTIES, python, description_of_fate, BASE_PORT + 100, over_tls=True)

    with Servers(start) as servers:
        yield servers


@pytest.fixture
def fate(fate_servers: Servers, request: pytest.FixtureRequest, python_of: Callable[[str], Path]) -> Iterator[Fate]:
    """Parties with FATE's components."""
    with fate_servers.lent(request.node.nodeid) as found:
        yield Fate(found, python_of("fate"))


@pytest.fixture
def by_columns(fate: Fate) -> Fate:
    """A bank and a telecom company that have 120 of 200 customers in common."""
    guest, host = fate.parties.guest, fate.parties.host
    if not guest.ask("table/table_info", {"namespace": NAMESPACE, "table_name": "bank"})["exist"]:
        give(guest, "bank", csv_of(everybody(), (LABEL, *BANK), OF_BANK), label_name=LABEL)
        give(host, "telecom", csv_of(everybody(), TELECOM, OF_TELECOM))
    return fate


@pytest.fixture
def install(heavy_root: Path) -> Callable[[str, Path], None]:
    """Make this Python the program of this name at all parties; called after `parties` has begun."""

    def installed(name: str, python: Path) -> None:
        (heavy_root / "bin" / name).write_text(f"#!/bin/sh\nexec '{python}' \"$@\"\n")

    return installed


@pytest.fixture
def rows(heavy_root: Path) -> Callable[[str, str], None]:
    """Give a party this text as the file `rows.csv` of its volume `rows`."""

    def given(party_id: str, text: str) -> None:
        (heavy_root / "rows" / party_id / "rows.csv").write_text(text, encoding="utf-8")

    return given


@pytest.fixture
def nothing_is_left() -> Callable[[Path], None]:
    """Wait until no process of this environment runs."""

    def waited(python: Path) -> None:
        folder = python.parents[1]

        def left() -> list[psutil.Process]:
            return processes_of(folder)

        eventually(lambda: not left(), lambda: f"left of {folder.name}: {left()}")

    return waited
