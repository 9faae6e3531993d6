"""What a server tells of its configuration, and what it keeps."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

from fate_flow.api.v1.party.service_registry import sections
from fate_flow.core.model.program import ProgramRules, Secret
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.connectors import MysqlServer
from fate_flow.settings.limits import Limits
from fate_flow.settings.parties import Route
from fate_flow.settings.reader import load_settings
from fate_flow.settings.settings import Settings
from tests.kit.api.client_world import make_world

CONF = Path(__file__).parents[4] / "conf" / "service_conf.yaml"


def test_it_has_every_section_of_the_configuration_file(tmp_path: Path) -> None:
    world = make_world(tmp_path, Limits())
    described = world.ask("server/service/get", {})["data"]
    assert described["FATEFLOW"]["host"] == "127.0.0.1"
    assert described["LIMITS"].keys() == {one.name for one in fields(Limits)}
    assert described == {**described, "AUTHENTICATION": {"client": {"switch": False}}, "DATABASE": {"engine": "sqlite"}}


def test_the_file_of_a_release_has_no_other_section() -> None:
    found = sections(load_settings(CONF))
    lines = [line for line in CONF.read_text(encoding="utf-8").splitlines() if line[:1].isalpha()]
    assert {line.partition(":")[0].upper() for line in lines} - {"PARTY_ID", "HOME"} == found.keys()


def test_nothing_secret_gets_out(tmp_path: Path) -> None:
    settings = Settings(
        "9999", tmp_path / "hidden-home", client_keys=ClientKeys("hidden-app-key", "hidden-secret-key"),
        database_url="mysql+pymysql://someone:hidden-word@10.0.0.1/hidden-name",
        routes={"10000": Route("https://someone:hidden-word@10.0.0.2:9380/base")},
        connectors={"warehouse": MysqlServer("10.0.0.3", 3306, "someone", "hidden-word", "name")},
        data_roots=(tmp_path / "hidden-root",), log_dir=tmp_path / "hidden-logs",
        commands=replace(
            ProgramRules(), allow=("/hidden/program",), secrets={"hidden": Secret("/hidden/file", ("9999",))}
        ),
    )  # fmt: skip
    found = sections(settings)
    assert found["DATABASE"] == {"engine": "mysql"}
    assert found["ROUTES"] == {"10000": {"url": "https://10.0.0.2:9380/base"}}
    assert found["AUTHENTICATION"] == {"client": {"switch": True}}
    assert "hidden" not in str(found)
    assert "someone" not in str(found)
