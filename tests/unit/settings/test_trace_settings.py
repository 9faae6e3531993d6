"""The section `traces`."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.core.model.errors import BadSettings
from fate_flow.settings.reader import load_settings
from fate_flow.settings.traces import TraceSettings
from tests.kit.tls import Authority


def read(folder: Path, text: str) -> TraceSettings:
    path = folder / "service_conf.yaml"
    path.write_text(f'party_id: "9999"\ntraces: {{{text}}}\n', encoding="utf-8")
    return load_settings(path).traces


def test_traces_are_off_unless_a_collector_is_named(tmp_path: Path) -> None:
    assert (read(tmp_path, ""), read(tmp_path, "").is_on) == (TraceSettings(), False)
    assert read(tmp_path, "endpoint: 'http://127.0.0.1:4318'").is_on


@pytest.mark.parametrize(("given", "meant"), [
    ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
    ("https://collector.example.org/", "https://collector.example.org/v1/traces"),
    ("https://collector.example.org/otlp/v1/traces", "https://collector.example.org/otlp/v1/traces"),
])  # fmt: skip
def test_a_url_without_a_path_has_that_of_every_collector(tmp_path: Path, given: str, meant: str) -> None:
    assert read(tmp_path, f"endpoint: '{given}'").endpoint == meant


def test_the_authority_and_the_share_are_read(tmp_path: Path) -> None:
    Authority(tmp_path)
    certificate = next(tmp_path.glob("*.pem"))
    found = read(tmp_path, f"endpoint: 'https://c.example.org', ca_file: {certificate.name}, share: 0.25")
    assert (found.ca_file, found.share, found.headers_file) == (str(certificate), 0.25, None)
    found = read(tmp_path, "endpoint: 'https://c.example.org', headers_file: collector.headers")
    assert found.headers_file == tmp_path / "collector.headers"


@pytest.mark.parametrize(("text", "problem"), [
    ("endpoint: 'http://collector.example.org:4318'", "traces.endpoint: is not an https URL without user, query and"),
    ("endpoint: 'https://u:hidden@c.example.org'", "traces.endpoint: is not an https URL without user, query and"),
    ("endpoint: 'https://c.example.org/?token=hidden'", "traces.endpoint: is not an https URL without user, query and"),
    ("endpoint: 'grpc://127.0.0.1:4317'", "traces.endpoint: is not an https URL without user, query and"),
    ("endpoint: 'http://127.0.0.1:4318', share: 0", "traces.share: 0 is not a share above 0 and up to 1"),
    ("endpoint: 'https://c.example.org', ca_file: none.pem", "traces.ca_file: "),
    ("ca_file: none.pem", "traces.ca_file: is set, but traces.endpoint is not"),
    ("headers_file: x", "traces.headers_file: is set, but traces.endpoint is not"),
    ("endpont: ''", "traces.endpont: no such key; did you mean endpoint"),
])  # fmt: skip
def test_a_wrong_value_is_refused_with_its_key(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(BadSettings) as refused:
        read(tmp_path, text)
    assert problem in refused.value.message
    assert "hidden" not in refused.value.message
