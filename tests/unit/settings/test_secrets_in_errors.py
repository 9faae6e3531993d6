"""What is wrong in a configuration file is told without what may be a secret there."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.core.model.errors import BadSettings
from fate_flow.settings.reader import load_settings


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    path = tmp_path / "service_conf.yaml"
    path.write_text('party_id: "9999"\n', encoding="utf-8")
    return path


@pytest.mark.parametrize("text", [
    "database: {url: 'mysql://u:hidden@h:x/db'}", "database: {url: 'mysql://u:h@hidden]/db'}",
    "database: {url: 'hidden://h/db'}", "database: {url: [hidden]}", "database: [hidden]", "database: hidden",
    "database: {url: mysql://u:pass: hidden}", "database: {url: *hidden}", "database: {url: 'hidden", "a: !hidden b",
    "notifications: {webhooks: {a: {url: 'https://h:hidden', secret_file: s}}}",
    "notifications: {webhooks: {a: {url: [hidden], secret_file: [hidden]}}}",
    "notifications: {board_url: 'x://u:hidden@h'}", "notifications: {email: {host: h, password_file: {hidden: 1}}}",
    "connectors: {a: {engine: MYSQL, url: {hidden: 1}}}",
    "routes: {10000: {url: 'ftp://u:hidden@h'}}", "routes: {10000: {url: 'http://u:hidden@h:99999'}}",
    "engines: {r: {kind: ray, runtime_env: {env_vars: [hidden]}}}", "engines: {r: {kind: ray, runtime_env: hidden}}",
    "authentication: {client: {switch: true, http_secret_key: [hidden]}}",
])  # fmt: skip
def test_no_message_shows_what_may_be_a_secret(bare: Path, text: str) -> None:
    bare.write_text(f'party_id: "9999"\n{text}\n', encoding="utf-8")
    with pytest.raises(BadSettings) as caught:
        load_settings(bare)
    assert "hidden" not in caught.value.message


@pytest.mark.parametrize(("text", "message"), [
    (b"a: {b: 1", "is not YAML: line 2, column 1; quote texts with special characters"),
    (b"a: \xff", "is not in UTF-8"),
    (b"routes: {10000: {url: 'ftp://u:p@h'}}", "routes.10000.url: 'ftp://...@h' is not an address such as http://"),
    (b"routes: {10000: {url: 'http://u:p@ten .example'}}", "routes.10000.url: 'http://...@ten .example' is not an"),
    (b"routes: {10000: {url: 'http://u:p@%zz'}}", "routes.10000.url: 'http://...@%zz' is not an address such as"),
])  # fmt: skip
def test_what_cannot_be_read_is_told_with_its_place(bare: Path, text: bytes, message: str) -> None:
    bare.write_bytes(text + b"\n")
    with pytest.raises(BadSettings) as caught:
        load_settings(bare)
    assert message in caught.value.message


def test_a_name_with_other_letters_than_those_of_ascii_is_a_host(bare: Path) -> None:
    bare.write_text("party_id: '9999'\nroutes: {10000: {url: 'https://m\u00fcller.example'}}\n", encoding="utf-8")
    assert load_settings(bare).routes["10000"].url == "https://m\u00fcller.example"
