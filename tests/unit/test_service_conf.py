"""`conf/service_conf.yaml` says all that can be set: every key, commented, with its default."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fate_flow.core.access.permission import PermissionRule
from fate_flow.core.access.site import SiteRule
from fate_flow.core.model.approval import ApprovalRule
from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.program import ProgramRules, Secret
from fate_flow.core.quotas.disk_space import LeastFree
from fate_flow.core.quotas.quota import PartyQuota, Quotas
from fate_flow.jobspec.ceilings import Ceilings
from fate_flow.server.start_warnings import start_warnings
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.connectors import MysqlServer
from fate_flow.settings.parties import Listen, PlainParties, Route
from fate_flow.settings.reader import load_settings
from fate_flow.settings.reading.section import Section
from fate_flow.settings.settings import Settings
from tests.kit.tls import Authority

CONF = Path(__file__).parents[2] / "conf" / "service_conf.yaml"
_KEY = re.compile(r" *\w+:")
_DEFAULT = re.compile(r"Default (\d+(?:\.\d+)?)\b(?!\.\d)")
_NUMBER = re.compile(r" *\w+: (\d+(?:\.\d+)?)")


def keys_in(document: dict[str, Any], path: str = "") -> Iterator[str]:
    for key, value in document.items():
        name = f"{path}.{key}" if path else key
        yield name
        if isinstance(value, dict):
            yield from keys_in(value, name)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A file that leaves everything to its default."""
    path = tmp_path / "conf" / "service_conf.yaml"
    path.parent.mkdir()
    path.write_text('party_id: "9999"\n', encoding="utf-8")
    return path


def test_the_keys_are_those_that_the_server_reads(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[str] = set()
    get = Section.get

    def noted(section: Section, key: str, default: Any = None) -> Any:
        read.add(section.name(key))
        return get(section, key, default)

    monkeypatch.setattr(Section, "get", noted)
    load_settings(bare)
    assert set(keys_in(yaml.safe_load(CONF.read_text(encoding="utf-8")))) == read


@pytest.mark.parametrize(("text", "message"), [
    ("authentication: {client: {switch: true, http_secret_key: secret-key}}", "client.http_app_key: is not 8 to 100"),
    ("authentication: {client: {switch: true, http_app_key: our-clients}}", "client.http_secret_key: is not 8 to 100"),
    ("authentication: {client: {switch: 1}}", "authentication.client.switch: 1 is neither true nor false"),
    ("authentication: {sites: {switch: true}}", "authentication.sites: no such key"),
    ("authentication: {client: {switch: false}, site: {switch: true}}",
     "site.switch: is true, but authentication.client.switch is"),
    ("authentication: {site: {unsigned_from: 1}}", "authentication.site.unsigned_from: 1 is not a list of party ids"),
    ("authentication: {site: {unsigned_from: [x]}}", "authentication.site.unsigned_from: 'x' is not a party id"),
    ("authentication: {site: {key: x}}", "authentication.site.key: no such key"),
    ("fateflow: {host: 10.0.0.1}", "parties are not signed .* nothing is encrypted; set host: 127.0.0.1, and let other "
     "parties connect to parties.listen, which speaks mutual TLS, or to a proxy .* for tests, fateflow.insecure"),
    ("fateflow: {host: 10.0.0.1, insecure_listen: true}\nauthentication: {client: {switch: false}}",
     "authentication.client.switch: is not true, and fateflow.host: 10.0.0.1 connects this server with other"),
    ("parties: {listen: {port: 9390}}\nauthentication: {client: {switch: false}}", "and parties.listen.host: 0.0.0.0"),
    ("parties: {dial: true}\nauthentication: {client: {switch: false}}", "and parties.dial: true connects this server"),
    ("routes: {10000: {url: 'https://ten:9390'}}\nauthentication: {client: {switch: false}}",
     "and routes.10000.url: https://ten:9390 connects this server"),
    ("fateflow: {host: fate.example}", "fateflow.host: 'fate.example' is not an IP address or localhost"),
    ("approval: {people: 2}\nauthentication: {client: {switch: false}}",
     "approval.people: is 2, but authentication.client.switch is not true"),
    ("approval: {people: 3}", "approval.people: 3 is not"),
    ("approval: {people: 0}", "approval.people: 0 is not"),
])
def test_keys_of_clients(bare: Path, text: str, message: str) -> None:
    bare.write_text(f'party_id: "9999"\n{text}\n', encoding="utf-8")
    with pytest.raises(BadSettings, match=message):
        load_settings(bare)


@pytest.mark.parametrize(("text", "message"), [
    ("parties: {listen: {host: example.org, port: 9390}}", "parties.listen.host: 'example.org' is not an IP address"),
    ("parties: {listen: {port: 70000}}", "parties.listen.port: 70000 is not a whole number from 0 to 65535"),
    ("parties: {listen: 9390}", "parties.listen: is a single value and not a mapping of keys"),
    ("parties: {listen: {prot: 9390}}", "parties.listen.prot: no such key"),
    ("parties: {listens: {}}", "parties.listens: no such key"),
    ("parties: {plain: {from: [10000]}}", "parties.plain.from: nobody can connect without parties.plain.listen.port"),
    ("parties: {plain: {listen: {port: 9391}}}", "parties.plain.listen: nobody is let in there: parties.plain.from"),
    ("parties: {plain: {listen: {port: 9391}, from: [x]}}", "parties.plain.from: 'x' is not a party id"),
    ("parties: {plain: {listen: {port: 9391}, from: [9999]}}", "parties.plain.from: has party 9999, which is this"),
    ("parties: {plain: {listen: {port: 9380}, from: [10000]}}", "parties.plain.listen.port: 9380 is fateflow.http"),
    ("parties: {listen: {host: 127.0.0.1, port: 9380}}", "parties.listen.port: 9380 is fateflow.http_port, too"),
    ("parties: {listen: {port: 9391}, plain: {listen: {port: 9391}, from: [1]}}",
     "parties.listen.port: 9391 is parties.plain.listen.port, too"),
    ("parties: {plain: {listen: {host: a, port: 9391}, from: [1]}}", "parties.plain.listen.host: 'a' is not an IP"),
    ("parties: {plain: {form: []}}", "parties.plain.form: no such key"),
    ("parties: {listen: {port: 1}, address: 'http://a:1'}", "parties.address: is not an address such as https://10"),
    ("parties: {listen: {port: 1}, dial: true}", "parties.dial: is true, and parties.listen has a port: a party that"),
    ("parties: {dial: 1}", "parties.dial: 1 is neither true nor false"),
    ("routes: {'7': {dials: true, url: 'https://a:1'}}", "routes.7.dials: is true, so the party has no address"),
    ("parties: {address: a.example}", "parties.address: is not an address such as https://10"),
])
def test_a_wrong_listener_for_other_parties_is_told(bare: Path, text: str, message: str) -> None:
    bare.write_text(f'party_id: "9999"\n{text}\n', encoding="utf-8")
    with pytest.raises(BadSettings, match=message):
        load_settings(bare)


@pytest.mark.parametrize(("text", "listen"), [
    ("", None), ("parties:", None), ("parties: {listen: {host: 10.0.0.1}}", None),
    ("parties: {listen: {port: 9390}}", Listen("0.0.0.0", 9390)),
    ("parties: {listen: {host: '::', port: 1}}", Listen("::", 1)),
    ("parties: {listen: {host: 10.0.0.1, port: 9380}}", Listen("10.0.0.1", 9380)),
])  # fmt: skip
def test_a_listener_for_other_parties_needs_no_more_than_a_port(bare: Path, text: str, listen: Listen | None) -> None:
    bare.write_text(f'party_id: "9999"\n{text}\n', encoding="utf-8")
    assert load_settings(bare).parties_listen == listen


@pytest.mark.parametrize(("text", "address"), [
    ("", ""), ("parties: {listen: {port: 9390}}", ""), ("parties: {listen: {host: '::', port: 9390}}", ""),
    ("parties: {listen: {host: 10.0.0.1, port: 9390}}", "https://10.0.0.1:9390"),
    ("parties: {listen: {host: '::1', port: 9390}}", "https://[::1]:9390"),
    ("parties: {listen: {port: 9390}, address: 'https://fate.example:443'}", "https://fate.example:443"),
])  # fmt: skip
def test_under_which_address_other_parties_reach_the_gateway(bare: Path, text: str, address: str) -> None:
    bare.write_text(f'party_id: "9999"\n{text}\n', encoding="utf-8")
    assert load_settings(bare).parties_address == address


def test_a_listener_for_plain_v1_is_on_loopback_unless_it_says_otherwise(bare: Path) -> None:
    bare.write_text('party_id: "9999"\nparties: {plain: {listen: {port: 9391}, from: [10000, 10001]}}\n')
    found = load_settings(bare)
    assert found.plain_parties == PlainParties(Listen("127.0.0.1", 9391), frozenset({"10000", "10001"}))
    assert not found.permission.is_on
    bare.write_text('party_id: "9999"\nparties: {plain: {listen: {host: 10.0.0.1, port: 9391}, from: [10000]}}\n')
    found = load_settings(bare)
    assert found.permission.is_on
    warning = "party 10000 is believed by its name at 10.0.0.1, port 9391 (parties.plain): anybody"
    assert any(one.startswith(warning) for one in start_warnings(found))


@pytest.mark.parametrize(("text", "message"), [
    ("a b: {}", "connectors.a b: is not a name of 1 to 50"),
    ("warehouse: {engine: HIVE}", "connectors.warehouse.engine: 'HIVE' is not MYSQL"),
    ("warehouse: {engine: MYSQL}", "connectors.warehouse.url: is not of the form mysql://user:password@host:3306/name"),
    ("warehouse: {engine: MYSQL, url: 'mysql://u:hidden@h:1'}", "connectors.warehouse.url: is not of the form"),
    ("warehouse: {engine: MYSQL, url: 'mysql://u:hidden@h:x/db'}", "host:3306/name; write special characters"),
    ("warehouse: {engine: MYSQL, path: x}", "connectors.warehouse.path: no such key"),
])
def test_connectors_that_are_none_are_told_without_their_password(bare: Path, text: str, message: str) -> None:
    bare.write_text(f'party_id: "9999"\nconnectors: {{{text}}}\n', encoding="utf-8")
    with pytest.raises(BadSettings, match=message) as caught:
        load_settings(bare)
    assert "hidden" not in caught.value.message


def test_a_connector_has_its_address_in_parts(bare: Path) -> None:
    url = "mysql://writer:hidden%40word@10.0.0.5/a%20b"
    bare.write_text(
        f'party_id: "9999"\nconnectors: {{warehouse: {{engine: MYSQL, url: "{url}"}}}}\n', encoding="utf-8"
    )
    found = load_settings(bare)
    assert found.connectors == {"warehouse": MysqlServer("10.0.0.5", 3306, "writer", "hidden@word", "a b")}
    assert "hidden" not in repr(found)


def test_beyond_loopback_clients_sign(bare: Path) -> None:
    keys = "{switch: true, http_app_key: our-clients, http_secret_key: secret.of-9999}"
    listen = "fateflow: {host: 10.0.0.1, insecure_listen: true}"
    bare.write_text(f'party_id: "9999"\n{listen}\nauthentication: {{client: {keys}}}\n', encoding="utf-8")
    found = load_settings(bare)
    assert found.client_keys == ClientKeys("our-clients", "secret.of-9999")
    assert "secret.of-9999" not in repr(found)


def test_two_people_may_have_to_approve(bare: Path) -> None:
    bare.write_text('party_id: "9999"\napproval: {required: true, people: 2}\n', encoding="utf-8")
    assert load_settings(bare).approval == ApprovalRule(required=True, people=2)


def with_site(bare: Path, site: str, more: str = "") -> Settings:
    keys = "{switch: true, http_app_key: our-clients, http_secret_key: secret.of-9999}"
    text = f'party_id: "9999"\nauthentication: {{client: {keys}, site: {site}}}\n{more}'
    bare.write_text(text, encoding="utf-8")
    return load_settings(bare)


def test_site_authentication(bare: Path) -> None:
    found = with_site(bare, "{switch: true, unsigned_from: [10000]}")
    assert (found.site, found.private_key) == (SiteRule(True, frozenset({"10000"})), found.keys_dir / "message.pem")
    assert with_site(bare, "{private_key: k.pem}").private_key == bare.parent / "k.pem"


def test_a_plain_v1_peer_needs_no_key_and_is_believed_at_its_own_listener_alone(bare: Path) -> None:
    found = with_site(bare, "{switch: true}", "parties: {plain: {listen: {port: 9391}, from: [10000]}}").site
    assert [found.needs_saved_key(one) for one in ("10000", "10001")] == [False, True]
    assert found.needs_key("10000")


def test_the_key_of_an_older_release_stays_where_it_is(bare: Path) -> None:
    found = with_site(bare, "{switch: true}")
    found.keys_dir.mkdir(parents=True, exist_ok=True)
    (found.keys_dir / "site.pem").touch()
    assert found.private_key == found.keys_dir / "site.pem"


def test_beyond_loopback_a_signature_is_no_encryption(bare: Path) -> None:
    with pytest.raises(BadSettings, match=r"machines, and nothing is encrypted; set host: 127\.0\.0\.1"):
        with_site(bare, "{switch: true}", "fateflow: {host: 10.0.0.1}")


def test_a_signed_path_is_the_whole_path(bare: Path) -> None:
    with pytest.raises(BadSettings, match=r"routes\.10000\.url: 'http://proxy/ten' has a path: signatures cover"):
        with_site(bare, "{switch: true}", "routes: {10000: {url: 'http://proxy/ten/'}}")
    assert with_site(bare, "{switch: true}", "routes: {10000: {url: 'http://proxy/'}}").site.is_on


def test_signed_answers_need_signed_requests(bare: Path) -> None:
    route = "routes: {10000: {url: 'https://ten', signed_answers: true}}"
    assert with_site(bare, "{switch: true}", route).routes["10000"].signed_answers
    route_of = "routes: {10000: {url: 'https://ten'%s}}"
    for more, found in (("", None), (", signed_answers: null", None), (", signed_answers: false", False)):
        assert with_site(bare, "{switch: true}", route_of % more).routes["10000"].signed_answers is found
    for site, why in (
        ("{switch: false}", r"authentication\.site\.switch is not: set it to true"),
        ("{switch: true, unsigned_from: [10000]}", r"party 10000 is in authentication\.site\.unsigned_from or "),
    ):
        with pytest.raises(BadSettings, match=rf"routes\.10000\.signed_answers: is true, but {why}"):
            with_site(bare, site, route)
    with pytest.raises(BadSettings, match=r"routes\.10000\.signed_answers: 'yes please' is neither true nor false"):
        with_site(bare, "{switch: true}", route.replace("true", "yes please"))


def test_a_route_may_have_an_authority_of_its_own(bare: Path, tmp_path: Path) -> None:
    def route(text: str) -> Route:
        bare.write_text(f'party_id: "9999"\nroutes: {{10000: {text}}}\n', encoding="utf-8")
        return load_settings(bare).routes["10000"]

    authority = Authority(bare.parent)
    (bare.parent / "empty.pem").write_text("no certificate")
    assert route("{url: 'https://ten'}") == Route("https://ten")
    assert route("{url: 'https://ten', ca: authority.pem}") == Route("https://ten", str(authority.file))
    for text, message in (
        ("{url: 'http://ten', ca: authority.pem}", r"routes\.10000\.ca: its url is not https"),
        ("{url: 'https://ten', ca: none.pem}", r"routes\.10000\.ca: .*none\.pem: cannot be read: No such file"),
        ("{url: 'https://ten', ca: empty.pem}", r"routes\.10000\.ca: .*empty\.pem: has no certificate of an auth"),
    ):
        with pytest.raises(BadSettings, match=message):
            route(text)


def test_the_values_are_the_defaults(bare: Path, tmp_path: Path) -> None:
    copy = tmp_path / "conf" / "copy.yaml"
    copy.write_text(CONF.read_text(encoding="utf-8"), encoding="utf-8")
    found = load_settings(copy)
    without_config = {name: replace(one, config={}) for name, one in found.engines.items()}
    assert replace(found, engines=without_config) == load_settings(bare)


def test_every_key_has_a_comment_above_it_and_names_its_default() -> None:
    above: list[str] = []
    bare_keys, without_default = [], []
    for line in CONF.read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("#"):
            above.append(line)
            continue
        if _KEY.match(line):
            if not above:
                bare_keys.append(line)
            elif not line.endswith(":") and "efault" not in " ".join(above):     # of a section, its keys have them
                without_default.append(line)
        above = []
    assert (bare_keys, without_default) == ([], [])


def test_a_number_in_a_comment_is_the_default_below_it() -> None:
    above: list[str] = []
    wrong: list[str] = []
    compared = 0
    for line in CONF.read_text(encoding="utf-8").splitlines():
        if line.lstrip().startswith("#"):
            above.append(line.strip(" #"))
            continue
        described = _DEFAULT.search(" ".join(above))
        value = _NUMBER.fullmatch(line)
        if described and value:
            compared += 1
            if float(described[1]) != float(value[1]):
                wrong.append(f"{line.strip()}, told as {described[1]}")
        above = []
    assert (wrong, compared > 30) == ([], True)


# ---------------------------------------------------------------------- ceilings


def with_ceilings(bare: Path, text: str) -> Ceilings:
    bare.write_text(f'party_id: "9999"\nceilings: {text}\n', encoding="utf-8")
    return load_settings(bare).ceilings


def test_ceilings_are_read(bare: Path) -> None:
    assert with_ceilings(bare, "{}") == Ceilings()
    assert with_ceilings(bare, "{max_interruptions: 0, task_timeout: 60, refused_actions: [restart_job]}") == Ceilings(
        max_interruptions=0, task_timeout=60, refused_actions=frozenset({"restart_job"})
    )
    assert [with_ceilings(bare, f"{{party_lost_retry: {one}}}").party_lost_retry for one in ("false", "true")] == [
        False, True
    ]


@pytest.mark.parametrize(("text", "problem"), [
    ("{max_attempts: 0}", "ceilings.max_attempts: 0 is not a whole number from 1 to"),
    ("{least_ttl: 0}", "ceilings.least_ttl: 0 is not a whole number from 1 to"),
    ("{task_timeout: 0}", "ceilings.task_timeout: 0 is not a whole number from 1 to"),
    ("{replicas: many}", "ceilings.replicas: 'many' is not a whole number"),
    ("{refused_actions: restart_job}", "ceilings.refused_actions: 'restart_job' is not a list of restart_job, "),
    ("{refused_actions: [restart]}", "ceilings.refused_actions: ['restart'] is not a list of restart_job, "),
    ("{refused_actions: [[a]]}", "ceilings.refused_actions: [['a']] is not a list of restart_job, "),
    ("{party_lost_retry: 1}", "ceilings.party_lost_retry: 1 is neither true nor false"),
    ("{stop_duration: 3}", "ceilings.stop_duration: no such key; did you mean retry_duration; known here: job_"),
])  # fmt: skip
def test_ceilings_that_make_no_sense_are_refused(bare: Path, text: str, problem: str) -> None:
    with pytest.raises(BadSettings, match=re.escape(problem)):
        with_ceilings(bare, text)


# ---------------------------------------------------------------------- commands


def with_commands(bare: Path, text: str) -> ProgramRules:
    bare.write_text(f'party_id: "9999"\ncommands: {text}\n', encoding="utf-8")
    return load_settings(bare).commands


def test_what_a_party_has_for_programs_is_read(bare: Path) -> None:
    assert with_commands(bare, "{}") == ProgramRules()
    text = "{output_max_bytes: 0, secrets: {KEY: {file: key, initiators: [10000]}, B: {file: /b}}}"
    found = with_commands(bare, text)
    assert found == ProgramRules(
        output_max_bytes=0, secrets={"KEY": Secret(str(bare.parent / "key"), ("10000",)), "B": Secret("/b")}
    )


@pytest.mark.parametrize(("text", "problem"), [
    ("{output_max_bytes: -1}", "commands.output_max_bytes: -1 is not a whole number from 0 to"),
    ("{secrets: {a-b: {file: /x}}}", "commands.secrets.a-b: is not a name of 1 to 50 letters, digits and _"),
    ("{secrets: {KEY: {initiators: []}}}", "commands.secrets.KEY.file: is missing; name the file with the secret"),
    ("{secrets: {KEY: {file: /x, initiators: all}}}", "commands.secrets.KEY.initiators: 'all' is not a list"),
    ("{secrets: {KEY: {file: /x, initiators: [all]}}}", "commands.secrets.KEY.initiators"),
    ("{secrets: {KEY: {file: /x, value: y}}}", "commands.secrets.KEY.value: no such key"),
])  # fmt: skip
def test_what_makes_no_sense_for_programs_is_refused(bare: Path, text: str, problem: str) -> None:
    with pytest.raises(BadSettings, match=re.escape(problem)):
        with_commands(bare, text)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("permission: {switch: true, component: true}", PermissionRule(components=True)),
        ("permission: {switch: true, component: true, dataset: true}", PermissionRule(True, True)),
        ("permission: {switch: false, component: true, dataset: true}", PermissionRule()),
    ],
)
def test_permissions_are_looked_at_where_the_switch_is_on(bare: Path, text: str, rule: PermissionRule) -> None:
    bare.write_text(f'party_id: "9999"\n{text}\n', encoding="utf-8")
    assert load_settings(bare).permission == rule


REACHABLE = "fateflow: {host: %s, insecure_listen: true}\nauthentication: {client: {switch: true}}"


@pytest.mark.parametrize(
    ("host", "text", "rule"),
    [
        ("10.0.0.1", "", PermissionRule(True, True, is_default=True)),
        ("0.0.0.0", "", PermissionRule(True, True, is_default=True)),
        ("'::'", "permission: {switch: null}", PermissionRule(True, True, is_default=True)),
        ("10.0.0.1", "permission: {dataset: false}", PermissionRule(components=True, is_default=True)),
        ("10.0.0.1", "permission: {switch: false}", PermissionRule()),
        ("10.0.0.1", "permission: {switch: true, component: true}", PermissionRule(components=True)),
        ("127.0.0.1", "", PermissionRule()),
        ("127.0.0.1", "parties: {listen: {port: 9390}}", PermissionRule(True, True, is_default=True)),
        ("127.0.0.1", "parties: {listen: {host: 127.0.0.1, port: 9390}}", PermissionRule()),
        ("127.0.0.1", "parties: {dial: true}", PermissionRule(True, True, is_default=True)),
        ("127.0.0.1", "parties: {dial: true}\npermission: {switch: false}", PermissionRule()),
        ("127.0.0.1", "parties: {listen: {host: 127.0.0.1, port: 9390}, address: 'https://fate.example:443'}",
         PermissionRule(True, True, is_default=True)),
        ("127.0.0.1", "routes: {10000: {url: 'https://ten:9390'}}", PermissionRule(True, True, is_default=True)),
        ("127.0.0.1", "routes: {10000: {url: 'http://127.0.0.1:9381'}, 7: {dials: true}}", PermissionRule()),
        ("127.0.0.1", "routes: {10000: {url: 'https://[::1]:9381'}, 7: {url: 'http://localhost:1'}}", PermissionRule()),
        ("localhost", "permission: {component: true, dataset: true}", PermissionRule()),
        ("'::1'", "permission: {switch: null}", PermissionRule()),
    ],
)
def test_beyond_loopback_grants_are_required_unless_the_configuration_says_otherwise(
    bare: Path, host: str, text: str, rule: PermissionRule
) -> None:
    bare.write_text(f'party_id: "9999"\n{REACHABLE % host}\n{text}\n', encoding="utf-8")
    assert load_settings(bare).permission == rule


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("permission: {switch: true}", "permission.switch: is true, but neither permission.component nor"),
        (
            "fateflow: {host: 10.0.0.1, insecure_listen: true}\nauthentication: {client: {switch: true}}\n"
            "permission: {component: false, dataset: false}",
            "permission.switch: is not set, and fateflow.host: 10.0.0.1 connects this server with other machines, but",
        ),
        ("permission: {switch: 1}", "permission.switch: 1 is neither true nor false"),
        ("permission: {switch: true, role: true}", "permission.role: no such key"),
    ],
)
def test_what_is_wrong_with_permissions_is_said(bare: Path, text: str, message: str) -> None:
    bare.write_text(f'party_id: "9999"\n{text}\n', encoding="utf-8")
    with pytest.raises(BadSettings, match=re.escape(message)):
        load_settings(bare)


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [("", 30), ("party_silence: 15, initiator_silence: 22", 15), ("remote_request_timeout: 3", 3)],
)
def test_no_request_to_a_party_outlasts_its_silence(bare: Path, limits: str, seconds: float) -> None:
    """Else the initiator would know of it after 30 s, and the others would have given up after 22."""
    bare.write_text(f'party_id: "9999"\nlimits: {{{limits}}}\n', encoding="utf-8")
    assert load_settings(bare).limits.longest_answer == seconds


# ---------------------------------------------------------------------- quotas


def with_quotas(bare: Path, text: str) -> Quotas:
    bare.write_text(f'party_id: "9999"\nquotas: {text}\n', encoding="utf-8")
    return load_settings(bare).quotas


def test_a_party_without_a_quota_of_its_own_has_the_default(bare: Path) -> None:
    assert with_quotas(bare, "{}") == Quotas("9999")
    found = with_quotas(bare, "{default: {unfinished_jobs: 5}, parties: {10000: {document_bytes: 99}}}")
    assert found == Quotas("9999", PartyQuota(unfinished_jobs=5), {"10000": PartyQuota(5, 99)})


@pytest.mark.parametrize(("text", "problem"), [
    ("{default: {unfinished_jobs: 0}}", "quotas.default.unfinished_jobs: 0 is not a whole number from 1 to"),
    ("{parties: {10000: {document_bytes: 1.5}}}", "quotas.parties.10000.document_bytes: 1.5 is not a whole number"),
    ("{parties: {ten: {}}}", "quotas.parties.ten: 'ten' is not a party id"),
    ("{parties: [10000]}", "quotas.parties: is a list and not a mapping of keys"),
    ("{default: {jobs: 3}}", "quotas.default.jobs: no such key"),
    ("{10000: {unfinished_jobs: 3}}", "quotas.10000: no such key"),
])  # fmt: skip
def test_quotas_that_make_no_sense_are_refused(bare: Path, text: str, problem: str) -> None:
    with pytest.raises(BadSettings, match=re.escape(problem)):
        with_quotas(bare, text)


@pytest.mark.parametrize(("text", "least"), [
    ("null", LeastFree()), ("0", LeastFree(0)), ("1073741824", LeastFree(1 << 30)), ("0.05", LeastFree(share=0.05)),
])  # fmt: skip
def test_what_stays_free_of_the_disk_is_bytes_or_a_share(bare: Path, text: str, least: LeastFree) -> None:
    bare.write_text(f'party_id: "9999"\nlimits: {{least_free_disk: {text}}}\n', encoding="utf-8")
    assert load_settings(bare).limits.least_free == least


@pytest.mark.parametrize("text", ["1.0", "1.5", "-1", "5 %", "true", "0.0"])
def test_what_is_neither_is_refused(bare: Path, text: str) -> None:
    bare.write_text(f'party_id: "9999"\nlimits: {{least_free_disk: {text}}}\n', encoding="utf-8")
    with pytest.raises(BadSettings, match=r"limits\.least_free_disk: .* is neither a whole number of bytes nor"):
        load_settings(bare)
