"""A program that runs as another user (`commands.user`): what it has, and what it does not reach."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fate_flow.components.providers.program_order import ORDER, PEERS, WORK, Order
from fate_flow.components.tables.table import Schema, TableWriter
from fate_flow.components.tables.table_uri import format_uri
from fate_flow.core.model.program import ProgramRules
from fate_flow.engines.local.program_user import ProgramUser
from tests.kit.servers.engine_site import Site

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run programs as another user"),   # bin/test notes it
]

NAME = "nobody"

LOOKS = """
id -u; id -u -r; echo "$HOME" "$USER"
for file in "$TOP/keys/root.pem" "$TOP/fate_flow.sqlite" ../launch.json ../command.json ../config.yaml "$TOP/data/t"; do
  cat "$file" && echo "READ $file"
done
ls "$TOP" && echo "LISTED the home"
ls "$TOP/jobs" && echo "LISTED the jobs"
echo x > ../exit.json && echo "WROTE the end"
rm -f ../launch.json && echo "REMOVED the order"
kill -9 $PPID && echo "KILLED the runner"
echo made > made && cat made sent
cat "$FATE_FLOW_PEERS_FILE" "$FATE_FLOW_TASK_CONFIG" && echo
echo said > /dev/stdout
"""


@pytest.fixture
def reached() -> Iterator[Site]:
    """An engine with a home that another user can pass through, as a server makes it."""
    home = Path(tempfile.mkdtemp(dir="/tmp"))
    home.chmod(0o711)
    (home / "jobs").mkdir(mode=0o711)
    for name in ("keys", "data"):
        (home / name).mkdir(mode=0o700)
    for file in (home / "keys" / "root.pem", home / "fate_flow.sqlite", home / "data" / "t"):
        file.write_text("secret")
        file.chmod(0o600)
    site = Site(home)
    site.start_spawner()
    yield site
    site.close()
    shutil.rmtree(home)


def ordered(site: Site, script: str) -> Path:
    """Launch a program with an input table and a file of its job."""
    folder = site.home / "jobs" / "w"
    (folder / WORK).mkdir(parents=True, mode=0o700)
    folder.chmod(0o700)
    uri = format_uri(site.home / "data", "rows", "mine")
    with TableWriter(uri, Schema(sid="id", header=("x",)), made_by="test") as writer:
        writer.add([("a", "7")])
        writer.close()
    config = {"input_artifacts": {"data": {"uri": uri, "type_name": "table"}}, "parameters": {"é": 1}}
    for name, text in (("config.yaml", json.dumps(config)), (PEERS, '["peers"]'), (WORK + "/sent", "sent\n")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    rules = ProgramRules(enabled=True, allow=("/bin/sh",), user=NAME)
    env = {"TOP": str(site.home), "FATE_FLOW_PEERS_FILE": str(folder / PEERS)}
    (folder / ORDER).write_text(Order(("/bin/sh", "-c", script), env, rules).to_json())
    return site.shell(script, cwd=folder / WORK, output_max_bytes=100_000)


def test_a_program_of_another_user_has_its_inputs_and_reaches_nothing_else_of_the_home(reached: Site) -> None:
    folder = ordered(reached, LOOKS)
    end = reached.end_of(folder)
    assert (end.exit_code, end.cause) == (0, "exited"), (end, reached.output_of(folder, "err.log"))
    out = reached.output_of(folder)
    for word in ("READ", "LISTED", "WROTE", "REMOVED", "KILLED", "secret"):
        assert word not in out, out
    uid, real, home, made, sent, *rest, said = out.splitlines()
    assert (uid, real) == (str(ProgramUser.of(NAME).uid),) * 2
    assert (home, made, sent, said) == (f"{folder / WORK} {NAME}", "made", "sent", "said")
    peers, _, config = "\n".join(rest).partition("{")
    assert json.loads(peers) == ["peers"]
    assert json.loads("{" + config)["input_artifacts"]["data"]["uri"].startswith(f"standalone://{folder}/inputs/")
    assert folder.stat().st_mode & 0o777 == 0o700      # closed again
    assert (folder / WORK / "made").read_text() == "made\n"


def test_a_program_of_another_user_reads_its_table(reached: Site) -> None:
    folder = ordered(reached, 'cat ../inputs/rows/mine.sqlite > copy && cat "$TOP/data/rows/mine.sqlite"')
    assert reached.end_of(folder).exit_code == 1
    assert (folder / WORK / "copy").read_bytes() == (reached.home / "data" / "rows" / "mine.sqlite").read_bytes()


def test_a_user_that_is_not_there_is_a_launch_that_failed(reached: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.NAME", "nobody-of-that-name")
    end = reached.end_of(ordered(reached, "true"))
    assert (end.cause, end.message) == (
        "not_started", "LookupError: commands.user: this machine has no user of that name"
    )  # fmt: skip
