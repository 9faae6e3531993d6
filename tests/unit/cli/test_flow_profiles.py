"""Several parties on one machine: a profile each, which `flow init` remembers beside the others."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from fate_flow.cli.connection.profiles import known_profiles, settings_path
from fate_flow.cli.connection.settings_file import Address, find_server
from fate_flow.cli.flow.main import flow as flow_command
from tests.kit.cli.stub_server import running_stub
from tests.kit.tls import Authority


@pytest.fixture
def bank():
    """Another server."""
    with running_stub() as found:
        yield found


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def behind_tls(authority):
    """A server with a certificate of that authority."""
    with running_stub(authority.server_context()) as found:
        yield found


def run(*arguments, **env):
    return CliRunner().invoke(flow_command, arguments, env=env, catch_exceptions=False)


def init(server, *arguments):
    return run("init", "--ip", "127.0.0.1", "--port", server.url.rpartition(":")[2], *arguments)


def test_two_parties_on_one_machine_do_not_overwrite_each_other(stub, bank):
    init(stub)
    described = init(bank, "--profile", "bank").stderr
    assert described == (
        f"flow --profile bank talks to {bank.url} from now on; stored in {settings_path('bank')}\n")
    assert settings_path("bank").name == "settings.bank.yaml"
    assert settings_path("bank").stat().st_mode & 0o777 == 0o600
    for arguments, env, asked in (
        (("job", "list"), {}, stub), (("--profile", "bank", "job", "list"), {}, bank),
        (("job", "list"), {"FATE_FLOW_PROFILE": "bank"}, bank),
        (("--profile", "bank", "job", "list"), {"FATE_FLOW_SERVER": stub.url}, bank),
        (("job", "list"), {"FATE_FLOW_PROFILE": "bank", "FATE_FLOW_SERVER": stub.url}, stub),
        (("--server", stub.url, "--profile", "bank", "job", "list"), {}, stub),
    ):
        before = len(asked.asked)
        assert run(*arguments, **env).exit_code == 0
        assert len(asked.asked) == before + 1, (arguments, env)


def test_the_profile_may_stand_before_init_and_is_merged_with_what_it_knows(stub, bank):
    init(bank, "--profile", "bank")
    assert run("--profile", "bank", "init", "--app-key", "our-clients", "--secret-key", "of-the-bank").exit_code == 0
    known = yaml.safe_load(settings_path("bank").read_text())
    assert (known["port"], known["app_key"]) == (int(bank.url.rpartition(":")[2]), "our-clients")
    assert not settings_path().exists()
    run("init", "--reset", "--profile", "bank")
    assert yaml.safe_load(settings_path("bank").read_text())["ip"] is None


def test_a_profile_that_is_not_there_is_named_with_those_that_are(stub, bank):
    assert "there are" not in run("--profile", "shop", "job", "list").stderr
    init(stub)
    init(bank, "--profile", "bank")
    assert known_profiles() == ["bank"]
    result = run("--profile", "shop", "job", "list")
    assert result.exit_code == 2
    text = "there is no profile shop: create it with flow --profile shop init ...; existing profiles: bank"
    assert text in result.stderr


@pytest.mark.parametrize("name", ["../x", "a b", "x" * 51, "a.b"])
def test_a_profile_has_a_plain_name(stub, name):
    assert run("--profile", name, "job", "list").exit_code == 2
    assert init(stub, "--profile", name).exit_code == 2


def test_the_tab_key_asks_the_server_of_the_profile(stub, bank):
    init(stub)
    init(bank, "--profile", "bank")
    bank.answers({"retcode": 0, "retmsg": "success", "data": {"jobs": [{"job_id": "42"}], "count": 1}})
    text = "flow --profile bank job stop -j "
    env = {"_FLOW_COMPLETE": "bash_complete", "COMP_WORDS": text, "COMP_CWORD": "6"}
    assert CliRunner().invoke(flow_command, [], prog_name="flow", env=env).stdout.split() == ["plain,42"]


def test_another_file_can_be_named(stub, tmp_path):
    named = str(tmp_path / "mine.yaml")
    port = stub.url.rpartition(":")[2]
    assert run("init", "--ip", "127.0.0.1", "--port", port, FATE_FLOW_SETTINGS=named).exit_code == 0
    assert os.path.exists(named)
    assert json.loads(run("job", "query", FATE_FLOW_SETTINGS=named).stdout)["retcode"] == 0


# ---------------------------------------------------------------------- a server behind TLS

KEYS = ("--app-key", "k", "--secret-key", "s")


def test_requests_to_a_server_behind_tls_are_signed_with_the_keys_that_init_stored(authority, behind_tls):
    assert run("init", "--url", behind_tls.url, *KEYS).exit_code == 0
    assert find_server(None) == Address(behind_tls.url, "k", "s")
    assert run("job", "list", REQUESTS_CA_BUNDLE=str(authority.file)).exit_code == 0
    assert behind_tls.last.headers["APP_KEY"] == "k"


def test_a_certificate_that_is_not_trusted_is_named_and_nothing_was_sent(behind_tls):
    run("init", "--url", behind_tls.url, *KEYS)
    result = run("job", "list", REQUESTS_CA_BUNDLE=None, CURL_CA_BUNDLE=None)
    assert result.exit_code == 3
    assert "shows a certificate that is not trusted here: REQUESTS_CA_BUNDLE=FILE" in result.stderr
    assert behind_tls.asked == []


@pytest.mark.parametrize("other", [("--ip", "10.0.0.1", "--port", "9382"), ("-c", "a.yaml")])
def test_the_address_that_was_named_last_counts_also_if_it_is_a_url(tmp_path, other):
    Path("a.yaml").write_text("fateflow: {host: 10.0.0.1, http_port: 9382}")
    there = Address("http://10.0.0.1:9382", "k", "s")
    run("init", *other, *KEYS)
    run("init", "--url", "https://fate.bank.example")
    assert find_server(None) == Address("https://fate.bank.example", "k", "s")
    run("init", *other)
    assert find_server(None).url == there.url
    assert "url" not in yaml.safe_load(settings_path().read_text())


@pytest.mark.parametrize(("options", "said"), [
    (("--url", "fate.bank.example"), "is not the address of a server"),
    (("--url", "https://fate.bank.example", "--port", "9380"), "--url: is given instead of -c, --ip and --port"),
])  # fmt: skip
def test_what_is_no_url_or_not_the_only_address_is_refused(options, said):
    result = run("init", *options)
    assert (result.exit_code, said in result.stderr) == (2, True)
    assert not settings_path().exists()
