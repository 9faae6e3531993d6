"""`bin/test` that is asked to end, as `timeout` and CI do, takes down all that it has started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import psutil
import pytest

from tests.kit.mostly_heavy import mostly_heavy
from tests.kit.waiting import SECONDS, eventually

pytestmark = pytest.mark.timeout(1200)

CHECKOUT = Path(__file__).parents[3]
TEST = dedent('''
    """Servers with a job that does not end, while the test waits for ever."""
    import time
    from pathlib import Path
    from tests.kit.servers.party_servers import GUEST, HOST, running_cluster, toy

    def test_it(tmp_path):
        with running_cluster(tmp_path / "parties", (GUEST, HOST)) as cluster, cluster.held(HOST):
            cluster.guest.worker_of(cluster.submit(toy()), "toy_0")
            Path(__file__).with_name("begun").touch()
            time.sleep(600)
''')
INTERRUPTED = 130
LONG = 5 * SECONDS      # for a whole run


def of_the_group(run: subprocess.Popen[bytes]) -> None:
    """What `timeout` does: pytest and its processes get the signal, too."""
    os.killpg(run.pid, signal.SIGTERM)


def of_the_command(run: subprocess.Popen[bytes]) -> None:
    run.terminate()


@pytest.mark.heavy
@pytest.mark.parametrize("end", mostly_heavy([of_the_group, of_the_command], 1))
def test_a_run_that_is_asked_to_end_leaves_no_process_and_no_file(
    tmp_path: Path, end: Callable[[subprocess.Popen[bytes]], None]
) -> None:
    test = tmp_path / "test_it.py"
    test.write_text(TEST, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("FATE_FLOW_", "PYTEST_"))}
    argv = [str(CHECKOUT / "bin" / "test"), "-c", str(CHECKOUT / "setup.cfg"), "-n", "1", str(test)]
    output = tmp_path / "output"
    with output.open("wb") as file:
        run = subprocess.Popen(argv, env=environment, stdout=file, stderr=file, start_new_session=True)
    try:
        eventually(lambda: run.poll() is not None or (tmp_path / "begun").exists(), output.read_text, LONG)
        assert run.poll() is None, output.read_text()
        [folder] = {Path(text).parent for one in psutil.Process(run.pid).children() for text in _basetemp(one)}
        before = _of(folder)
        assert {"fate_flow", "fate-spawner", "fate-runner"} <= set(before.values()), before
        end(run)
        assert run.wait(LONG) == INTERRUPTED, output.read_text()
        assert _of(folder) == {}
        assert not folder.exists()
    finally:
        run.terminate()
        run.wait(LONG)


def _basetemp(process: psutil.Process) -> list[str]:
    return [one.removeprefix("--basetemp=") for one in process.cmdline() if one.startswith("--basetemp=")]


def _of(folder: Path) -> dict[int, str]:
    """The processes that work in this folder or are given it, with their names."""
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            given = [process.cwd(), *process.cmdline(), *process.environ().values()]
            if any(f"{folder}/" in f"{one}/" for one in given):
                found[process.pid] = process.name()
    return found
