"""What a server says at its start, and `fate_flow conf check` of a configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fate_flow.cli.server.main import fate_flow
from fate_flow.core.access.client_roles import READ
from fate_flow.core.model.errors import BadSettings
from fate_flow.peers.tls import load_tls_key
from fate_flow.server.runtime import signature_of, with_client_keys
from fate_flow.server.start_warnings import start_warnings
from fate_flow.settings.people import add_client
from fate_flow.settings.reader import load_settings
from fate_flow.settings.settings import Settings
from tests.kit.tls import Authority

SECRETS = {
    "authentication: {client: {switch: true, http_app_key: our-clients, http_secret_key: secret-of-9999}}":
        "authentication.client.http_secret_key",
    "database: {url: 'mysql://u:word@h/d'}": "database.url",
    "connectors: {warehouse: {engine: MYSQL, url: 'mysql://u:word@h/d'}}": "connectors.warehouse.url",
}


def write(path: Path, text: str, mode: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def check(conf: Path) -> str:
    done = CliRunner().invoke(fate_flow, ["conf", "check", "-c", str(conf)])
    assert (done.exit_code, done.stdout) == (0, "ok\n"), done.output
    *said, of_limits = done.stderr.splitlines(keepends=True)
    assert "limits" in of_limits        # whatever this machine has
    return "".join(said)


@pytest.mark.parametrize("text", SECRETS)
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_secrets_that_others_may_read(tmp_path: Path, text: str, mode: int) -> None:
    conf = write(tmp_path / "conf" / "c.yaml", f'party_id: "9999"\n{text}\n', mode)
    message = f"{conf} has secrets ({SECRETS[text]}) and mode {mode:04o}: others may read them; chmod 600"
    assert check(conf) == f"WARNING: {message}\n"
    assert message in start_warnings(load_settings(conf))
    conf.chmod(0o600)
    assert check(conf) == ""


def test_secrets_of_an_overlay_are_those_of_its_file(tmp_path: Path) -> None:
    conf = write(tmp_path / "conf" / "c.yaml", 'party_id: "9999"\ndatabase: {url: "mysql://u@h/d"}\n', 0o644)
    overlay = write(conf.with_name("local.c.yaml"), 'database: {url: "mysql://u:word@h/d"}\n', 0o644)
    assert check(conf).startswith(f"WARNING: {overlay} has secrets (database.url)")
    overlay.chmod(0o600)
    assert check(conf) == ""


def test_what_other_parties_cannot_be_shown_is_named_before_the_first_start(tmp_path: Path) -> None:
    company, keys = Authority(tmp_path), tmp_path / "home" / "keys"
    own, other = tmp_path / "own.pem", tmp_path / "other.pem"
    text = f'party_id: "9999"\nhome: {tmp_path}/home\nparties: {{listen: {{host: 127.0.0.1, port: 9390}}%s}}\n'
    conf = write(tmp_path / "conf" / "c.yaml", text % "", 0o600)
    missing = "there is no private key of this party: fate_flow key make -c CONF"
    assert check(conf) == f"WARNING: {keys}/tls.pem: {missing}\n"
    assert CliRunner().invoke(fate_flow, ["key", "make", "-c", str(conf)]).exit_code == 0
    assert check(conf) == ""
    own.write_bytes(company.certificate("a.b", load_tls_key(keys / "tls.pem").public_key()))
    other.write_bytes(company.certificate("a.b", Ed25519PrivateKey.generate().public_key()))
    write(conf, text % f", certificate: {own}", 0o600)
    assert check(conf) == ""
    write(conf, text % f", certificate: {other}", 0o600)
    assert check(conf) == f"WARNING: {other}: its first certificate is of another key than the tls key in use\n"


def test_a_home_without_keys_says_so(tmp_path: Path) -> None:
    [message] = start_warnings(Settings("9999", tmp_path))
    assert message.startswith("clients need not sign their requests")


def test_client_roles_that_nobody_looks_at(tmp_path: Path) -> None:
    conf = write(tmp_path / "conf" / "c.yaml", 'party_id: "9999"\n', 0o600)
    add_client(tmp_path, "anna", READ, 1)
    assert [one for one in start_warnings(with_client_keys(load_settings(conf))) if "client roles" in one] == []
    write(conf, 'party_id: "9999"\nauthentication: {client: {switch: false}}\n', 0o600)
    [text] = [one for one in start_warnings(load_settings(conf)) if "client roles" in one]
    assert text.startswith(f"the client roles in {tmp_path}/keys/people.yaml have no effect")


@pytest.mark.parametrize(("permission", "warns"), [
    ("", True), ("permission: {switch: true, component: true}", False), ("permission: {switch: false}", False),
])  # fmt: skip
def test_grants_that_are_required_by_default_are_named_at_the_start(
    tmp_path: Path, permission: str, warns: bool
) -> None:
    text = f'party_id: "9999"\nfateflow: {{host: 10.0.0.1, insecure_listen: true}}\n{permission}\n'
    conf = write(tmp_path / "conf" / "c.yaml", text, 0o600)
    found = [one for one in start_warnings(load_settings(conf)) if one.startswith("permission.switch is not set")]
    assert bool(found) == warns
    assert not found or "also those that run (fate_flow grants show); set permission.switch to true" in found[0]


@pytest.mark.parametrize(("site", "route", "warns"), [
    ("switch: true", "url: 'http://10.0.0.2:9380', signed_answers: false", True),
    ("switch: null", "url: 'http://10.0.0.2:9380', signed_answers: false", True),
    ("switch: true", "url: 'http://10.0.0.2:9380'", False),
    ("switch: true", "url: 'http://10.0.0.2:9380', signed_answers: true", False),
    ("switch: true", "url: 'https://10.0.0.2:9390', signed_answers: false", False),
    ("switch: true", "url: 'http://127.0.0.1:9380', signed_answers: false", False),
    ("switch: true, unsigned_from: [10000]", "url: 'http://10.0.0.2:9380', signed_answers: false", False),
    ("switch: false", "url: 'http://10.0.0.2:9380', signed_answers: false", False),
])  # fmt: skip
def test_answers_that_nothing_proves_are_named_at_the_start(
    tmp_path: Path, site: str, route: str, warns: bool
) -> None:
    text = f'party_id: "9999"\nauthentication: {{site: {{{site}}}}}\nroutes: {{10000: {{{route}}}}}\n'
    conf = write(tmp_path / "conf" / "c.yaml", text, 0o600)
    found = [one for one in start_warnings(with_client_keys(load_settings(conf))) if one.startswith("answers of")]
    assert found == ([
        "answers of party 10000 are not proved: a proxy, or whoever is between the servers, can answer in that name "
        "(routes.10000.signed_answers: false)"
    ] if warns else [])


@pytest.mark.parametrize(("site", "url", "warns"), [
    ("switch: false", "http://10.0.0.2:9380", True),
    ("switch: null", "http://10.0.0.2:9380", False),
    ("switch: false, unsigned_from: [10000]", "http://10.0.0.2:9380", False),
    ("switch: false", "https://10.0.0.2:9390", False),
    ("switch: false", "http://127.0.0.1:9381", False),
])  # fmt: skip
def test_signatures_that_are_switched_off_between_machines_are_named_at_the_start(
    tmp_path: Path, site: str, url: str, warns: bool
) -> None:
    text = f'party_id: "9999"\nauthentication: {{site: {{{site}}}}}\nroutes: {{10000: {{url: \'{url}\'}}}}\n'
    conf = write(tmp_path / "conf" / "c.yaml", text, 0o600)
    found = [one for one in start_warnings(with_client_keys(load_settings(conf))) if one.startswith("nothing proves")]
    assert len(found) == warns
    assert not warns or f"routes.10000.url: {url} leads to another machine without TLS that ends at a key" in found[0]


def test_a_key_that_is_missing_for_signatures_by_default_is_named_with_what_needs_it(tmp_path: Path) -> None:
    text = 'party_id: "9999"\nroutes: {10000: {url: "http://10.0.0.2:9380"}}\n'
    conf = write(tmp_path / "conf" / "c.yaml", text, 0o600)
    why = r"routes\.10000\.url: http.* so requests and answers have to be signed .* \(parties\.plain\.from, "
    with pytest.raises(BadSettings, match=rf"message\.pem: there is no private key .* key make .*; {why}"):
        signature_of(load_settings(conf))


@pytest.mark.parametrize(("keys", "said"), [
    ("address: 'http://127.0.0.1:8265'", "engines.ray.token_file is not set: whoever reaches that Ray"),
    ("address: 'http://head:8265', token_file: t", "engines.ray.address: http://head:8265: the token of Ray"),
    ("address: 'http://127.0.0.1:8265', token_file: t", ""),
    ("address: 'https://head', token_file: t", ""),
])  # fmt: skip
def test_a_ray_that_is_open_or_gets_its_token_unencrypted_is_named(tmp_path: Path, keys: str, said: str) -> None:
    conf = write(tmp_path / "c" / "service_conf.yaml", f'party_id: "9999"\nengines: {{ray: {{{keys}}}}}\n', 0o600)
    found = [one for one in start_warnings(load_settings(conf)) if one.startswith("engines.ray")]
    assert (len(found), said in "".join(found)) == (bool(said), True)
