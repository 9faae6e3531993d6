"""What a configuration requires once it connects a server with other machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.core.model.errors import BadSettings
from fate_flow.settings.reader import load_settings
from tests.kit.tls import Authority


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A file below an empty home."""
    path = tmp_path / "conf" / "service_conf.yaml"
    path.parent.mkdir()
    return path


@pytest.mark.parametrize(("text", "is_on", "due_to"), [
    ("", False, ""),
    ("routes: {10000: {url: 'http://10.0.0.2:9380'}}", True, "routes.10000.url: http://10.0.0.2:9380"),
    ("routes: {10000: {url: 'https://ten', ca: authority.pem}}", True, "routes.10000.url: https://ten"),
    ("routes: {10000: {url: 'https://ten'}, 7: {dials: true}, 8: {url: 'http://127.0.0.1:1'}}", False, ""),
    ("fateflow: {host: 10.0.0.1, insecure_listen: true}", False, ""),
    ("fateflow: {host: 10.0.0.1, insecure_listen: true}\nroutes: {10000: {url: 'https://ten'}}", True,
     "fateflow.host: 10.0.0.1"),
    ("routes: {10000: {url: 'http://10.0.0.2:9380'}}\nauthentication: {site: {unsigned_from: [10000]}}", False, ""),
    ("routes: {10000: {url: 'http://10.0.0.2:9380'}}\nparties: {plain: {listen: {port: 9391}, from: [10000]}}",
     False, ""),
    ("routes: {10000: {url: 'http://ten'}}\nauthentication: {site: {switch: false}}", False,
     "routes.10000.url: http://ten"),
    ("routes: {10000: {url: 'http://ten'}}\nauthentication: {site: {switch: null}}", True,
     "routes.10000.url: http://ten"),
])  # fmt: skip
def test_where_no_key_of_a_party_ends_the_connections_requests_are_signed_by_default(
    bare: Path, text: str, is_on: bool, due_to: str
) -> None:
    Authority(bare.parent)
    bare.write_text(f'party_id: "9999"\n{text}\n', encoding="utf-8")
    found = load_settings(bare).site
    assert (found.is_on, found.due_to) == (is_on, due_to)


def test_a_home_without_keys_is_told_how_its_clients_get_some(bare: Path) -> None:
    (bare.parent.parent / "run").mkdir()
    (bare.parent.parent / "run" / "secret").touch()          # a server of an earlier release has run here
    bare.write_text('party_id: "9999"\nparties: {dial: true}\n', encoding="utf-8")
    what_to_do = r"is not true, and parties\.dial: true .* set it to true\. .* makes keys .* flow init -c"
    with pytest.raises(BadSettings, match=rf"client\.switch: {what_to_do} .*service_conf\.yaml"):
        load_settings(bare)
    bare.write_text('party_id: "9999"\nparties: {dial: true}\nauthentication: {client: {switch: true}}\n')
    assert load_settings(bare).makes_client_keys
