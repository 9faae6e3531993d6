"""`fate_flow grants` on a home whose server does not run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fate_flow.cli.server.main import fate_flow

FILE = """\
version: 1
parties:
  9999:
    components: [Reader, SecureSum]
    tables: [{namespace: demo, name: t, columns: [x], uses_a_day: 3}]
    cores: 4
  10001: {tables: ["*"], approval: true}
"""
LINES = [
    "+ 9999: component Reader", "+ 9999: component SecureSum", "+ 9999: table demo/t (columns x; 3 uses a day)",
    "+ 9999: at most 4 cores at once", "+ 10001: all tables", "+ 10001: approval of each job",
]  # fmt: skip
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command at party 10000, with a file of grants."""
    conf, file = tmp_path / "conf.yaml", tmp_path / "grants.yaml"
    conf.write_text(f'party_id: "10000"\nhome: {tmp_path}/home\n', encoding="utf-8")
    file.write_text(FILE, encoding="utf-8")
    assert CliRunner().invoke(fate_flow, ["db", "upgrade", "-c", str(conf)]).exit_code == 0

    def run(command: str, *arguments: str, text: str = "") -> Result:
        if text:
            file.write_text(text, encoding="utf-8")
        named = [] if command == "show" else ["-f", str(file)]
        return CliRunner().invoke(fate_flow, ["grants", command, "-c", str(conf), *named, *arguments])

    return run


def test_a_file_is_compared_applied_and_shown(run: Run) -> None:
    for command in (("diff",), ("apply", "--dry-run")):
        found = run(*command)
        assert (found.exit_code, found.stdout.splitlines()) == (1, LINES)
    assert run("show").stdout == "nothing is granted\n"
    applied = run("apply", "--by", "ada")
    assert (applied.exit_code, applied.stdout.splitlines()) == (0, LINES)
    again = run("diff")
    assert (again.exit_code, again.stdout, again.stderr) == (0, "", "nothing differs\n")
    shown = run("show", "-p", "9999")
    assert "no grants are required here (permission.switch)" in shown.stderr
    head, *lines = shown.stdout.splitlines()
    assert head.startswith("party 9999 (file applied by ada at 20")
    assert lines == [
        "  component Reader", "  component SecureSum", "  table demo/t (columns x; 3 uses a day), used 0 times",
        "  at most 4 cores at once",
    ]
    answer = json.loads(run("show", "--json").stdout)
    assert (answer["10001"]["grants"], answer["10001"]["by"]) == (["all tables", "approval of each job"], "ada")
    assert answer["9999"]["used_in_24_hours"] == {"table demo/t": 0}


def test_a_party_that_is_not_in_the_file_keeps_its_grants(run: Run) -> None:
    run("apply")
    found = run("apply", text="version: 1\nparties: {9999: {}}\n")
    assert (found.exit_code, len(found.stdout.splitlines())) == (0, 4)
    assert all(line.startswith("- 9999: ") for line in found.stdout.splitlines())
    shown = run("show").stdout
    assert "all tables" in shown
    assert "  nothing\n" in shown, "and who revoked all is still there"


@pytest.mark.parametrize("command", [("apply",), ("diff",), ("apply", "--dry-run")])
def test_a_wrong_file_changes_nothing(run: Run, command: tuple[str, ...]) -> None:
    text = FILE.replace("cores", "corse")
    found = run(*command, text=text)
    assert (found.exit_code, found.stdout) == (2, "")
    assert "grants.yaml: parties.9999.corse: is not known; did you mean cores (line 6)" in found.stderr
    assert run("show").stdout == "nothing is granted\n"


def test_an_empty_name_is_refused(run: Run) -> None:
    found = run("apply", "--by", " ")
    assert (found.exit_code, "is not a name of 1 to 100 characters" in found.stderr) == (2, True)


def test_the_schema_is_printed() -> None:
    printed = CliRunner().invoke(fate_flow, ["grants", "schema"])
    assert json.loads(printed.stdout)["title"] == "fate_flow grants"
