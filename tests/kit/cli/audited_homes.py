"""Parties that keep a record, without a server: a home each, and the commands that audit it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner, Result

from fate_flow.cli.server.home_context import home_context
from fate_flow.cli.server.main import fate_flow
from fate_flow.services.context.unit_of_work import UnitOfWork, unit_of_work
from fate_flow.services.record.sealing import seal_new
from fate_flow.settings.reader import load_settings


@dataclass
class Home:
    """A party with a record, and its commands."""

    conf: Path
    folder: Path

    def run(self, *arguments: str) -> Result:
        named = [] if arguments[0] == "verify" else ["-c", str(self.conf)]
        return CliRunner().invoke(fate_flow, [*arguments, *named])

    def audit(self, *arguments: str) -> Result:
        return self.run("audit", *arguments)

    def change(self, statement: str, *values: object) -> None:
        """What somebody with access to the database file does."""
        with sqlite3.connect(self.folder / "fate_flow.sqlite") as database:
            assert database.execute(statement, values).rowcount > 0

    def record(self, act: Callable[[UnitOfWork], None]) -> None:
        with home_context(load_settings(self.conf)) as context:
            with unit_of_work(context) as unit:
                act(unit)
            context.write(lambda tx: seal_new(tx, context.clock()))


def home_in(folder: Path, party_id: str = "9999") -> Home:
    """Return the party whose home is in this folder."""
    text = f'party_id: "{party_id}"\nhome: {folder}/home\nrecord: {{switch: true}}\n'
    found = Home(folder / "conf.yaml", folder / "home")
    found.conf.write_text(text, encoding="utf-8")
    return found


def made_home(folder: Path, party_id: str = "9999") -> Home:
    """Make the home of a party that records nothing yet; it has keys."""
    found = home_in(folder, party_id)
    assert found.run("db", "upgrade").exit_code == 0
    assert found.run("key", "make").exit_code == 0
    return found
