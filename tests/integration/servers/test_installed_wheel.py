"""What `pip install .` installs: a server that starts and runs a job, without the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
import pytest
import yaml

from fate_flow.cli.server.cluster_plan import Ports
from tests.kit.servers.party_servers import BASE_PORT
from tests.kit.waiting import eventually
from tests.kit.wheel import built_wheel

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The commands of a fresh environment with the wheel; its dependencies are those of the tests' environment."""
    environment = tmp_path / "environment"
    _run(sys.executable, "-I", "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    _run(*pip, "install", "--quiet", "--no-index", "--no-deps", built_wheel(tmp_path))
    packages = f"python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    # The paths alone: what the tests' environment says of a checkout to be imported is not read.
    (environment / "lib" / packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    where = _run(python, "-P", "-c", "import fate_flow, fate_flow_sql; print(fate_flow.__file__)")
    assert Path(where.strip()).is_relative_to(environment)
    return environment / "bin"


def _run(*argv: object, cwd: Path | None = None, settings: Path | None = None) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    if settings:
        environment["FATE_FLOW_SETTINGS"] = str(settings)
    done = subprocess.run(
        list(map(str, argv)), cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{argv}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@contextmanager
def _served(commands: Path, conf: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        server = subprocess.Popen(
            [commands / "fate_flow", "serve", "-c", conf], cwd=conf.parent, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    try:
        yield server
    finally:
        children = psutil.Process(server.pid).children(recursive=True) if server.poll() is None else []
        for process in (server, *children):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        server.wait()


def _written(conf: Path, ports: Ports) -> Path:
    """A configuration with a port that nobody else has on this machine."""
    port = next(filter(ports.is_free, range(BASE_PORT + 170, 65536)))
    conf.write_text(yaml.safe_dump({"party_id": "9999", "home": "..", "fateflow": {"http_port": port}}))
    return conf


@pytest.mark.heavy
def test_the_installed_server_starts_and_runs_a_job(installed: Path, tmp_path: Path) -> None:
    home, log = tmp_path / "home", tmp_path / "server.log"
    conf, settings = home / "conf" / "service_conf.yaml", tmp_path / "settings.yaml"
    conf.parent.mkdir(parents=True)
    with closing(Ports()) as ports, _served(installed, _written(conf, ports), log) as server:
        def answers() -> bool:
            assert server.poll() is None, log.read_text()
            return (home / "run" / "server.json").exists()

        eventually(answers, lambda: log.read_text(), seconds=120)
        _run(installed / "flow", "init", "-c", conf, settings=settings)
        (tmp_path / "rows.csv").write_text("id,x\n1,2\n")
        wanted = {
            "file": "rows.csv", "head": 1, "partition": 1, "id_delimiter": ",", "namespace": "it", "table_name": "rows",
        }
        (tmp_path / "upload.json").write_text(json.dumps(wanted))
        _run(
            installed / "flow", "data", "upload", "-c", "upload.json", "--watch", cwd=tmp_path, settings=settings
        )
        answer = json.loads(
            _run(installed / "flow", "table", "info", "-t", "rows", "-n", "it", settings=settings)
        )
        assert answer["data"]["count"] == 1
