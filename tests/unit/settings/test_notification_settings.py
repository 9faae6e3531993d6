"""The section `notifications`, its files, and `fate_flow notify`."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fate_flow.cli.server.main import fate_flow
from fate_flow.core.access.client_roles import ClientRole
from fate_flow.core.model.errors import BadSettings
from fate_flow.core.notifications.notification import OCCASIONS, Occasion
from fate_flow.core.notifications.subscribers import EMAIL, Person, Target
from fate_flow.server.notifying.parts import secret_problems, why_no_more
from fate_flow.settings.client_keys import ClientKeys
from fate_flow.settings.notifications import MailServer, NotificationSettings
from fate_flow.settings.people import add_client, revoke_client
from fate_flow.settings.reader import load_settings
from tests.kit.notifications.receivers import Webhooks, webhook_receiver
from tests.kit.tls import Authority

HOOK = "ops: {url: 'https://hooks.example.org/x?token=hidden', secret_file: ops.secret, events: [job_ended]}"
MAIL = "email: {host: mail.example.org, sender: fate@example.org}"
ANN = "ann: {email: ann@example.org, webhooks: [ops], events: [approval_needed, job_ended]}"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"


def conf_with(folder: Path, text: str, more: str = "") -> Path:
    path = folder / "service_conf.yaml"
    path.write_text(f'party_id: "9999"\nhome: {folder}/home\n{more}\nnotifications: {{{text}}}\n', encoding="utf-8")
    return path


def read(folder: Path, text: str, more: str = "") -> NotificationSettings:
    return load_settings(conf_with(folder, text, more)).notifications


def test_who_is_notified_of_what_and_where(tmp_path: Path) -> None:
    found = read(tmp_path, f"webhooks: {{{HOOK}}}, {MAIL}, people: {{{ANN}, ben: {{webhooks: [ops], jobs: all}}}}")
    ops = "webhook/ops"
    assert found.subscribers.webhooks == {ops: frozenset({Occasion.JOB_ENDED})}
    assert found.subscribers.people == {
        "ann": Person("ann", (Target(EMAIL, "ann"), Target(ops, "ann")),
                      frozenset({Occasion.APPROVAL_NEEDED, Occasion.JOB_ENDED})),
        "ben": Person("ben", (Target(ops, "ben"),), frozenset(OCCASIONS), has_all_jobs=True),
    }  # fmt: skip
    assert found.mail == MailServer("mail.example.org", 587, "starttls", "fate@example.org")
    assert found.addresses == {"ann": "ann@example.org"}
    assert found.webhooks[ops].secret_file == tmp_path / "ops.secret"
    assert "hidden" not in repr(found)
    assert [found.has(one) for one in (Target(EMAIL, "ann"), Target(EMAIL, "ben"), Target("webhook/x"))] == [
        True, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(("text", "problem"), [
    ("webhooks: {ops: {url: 'http://hooks.example.org', secret_file: x}}", "ops.url: is not an https URL without user"),
    ("webhooks: {ops: {url: 'https://u:hidden@h', secret_file: x}}", "ops.url: is not an https URL without user"),
    ("webhooks: {ops: {secret_file: x}}", "ops.url: is not an https URL"),
    ("webhooks: {ops: {url: 'https://h'}}", "webhooks.ops.secret_file: is missing; name the file with its secret"),
    ("webhooks: {ops: {url: 'https://h', secret_file: x, events: [test]}}", r"ops.events: \['test'\] is not a list of "
     "approval_needed, job_ended, partner_silent, contradiction"),
    ("webhooks: {ops: {url: 'https://h', secret_file: x, ca_file: none.pem}}", "ops.ca_file: .*cannot be read"),
    ("webhooks: {'a b': {}}", "notifications.webhooks.a b: is not a name of 1 to 32"),
    ("email: {host: h, sender: fate}", "email.sender: 'fate' is not an address, such as fate@example.org"),
    ("email: {host: h, sender: a@b, security: ssl}", "email.security: 'ssl' is not starttls, tls or none"),
    ("email: {host: h, sender: a@b, security: none}", "security: is none, and h is another machine: nothing would be"),
    ("email: {host: h, sender: a@b, user: u}", "email.user: a login needs both user and password_file"),
    ("email: {host: 127.0.0.1, sender: a@b, security: none, user: u, password_file: p}", "no password is sent without"),
    ("people: {ann: {email: a@b}}", "people.ann.email: no mail is sent without notifications.email.host"),
    (f"{MAIL}, people: {{ann: {{email: 'a@b\\n'}}}}", "people.ann.email: .* is not an address"),
    ("people: {ann: {}}", "people.ann.email: is missing, and webhooks too: ann could not be notified"),
    ("people: {ann: {webhooks: [ops]}}", r"people.ann.webhooks: \['ops'\] is not a list of names in notifications"),
    (f"{MAIL}, people: {{ann: {{email: a@b, jobs: mine}}}}", "people.ann.jobs: 'mine' is not own or all"),
    (f"{MAIL}, people: {{ann: {{email: a@b, event: []}}}}", "notifications.people.ann.event: no such key"),
    ("silence_seconds: 1", "notifications.silence_seconds: 1 is not a number of at least 5"),
    ("board_url: fate", "notifications.board_url: 'fate' is not a URL"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(BadSettings, match=problem) as caught:
        read(tmp_path, text)
    assert "hidden" not in caught.value.message


def test_own_jobs_need_clients_that_sign(tmp_path: Path) -> None:
    unsigned = "authentication: {client: {switch: false}}"
    with pytest.raises(BadSettings, match=r"people\.ann\.jobs: is own, but authentication\.client\.switch is not true"):
        read(tmp_path, f"webhooks: {{{HOOK}}}, {MAIL}, people: {{{ANN}}}", unsigned)
    read(tmp_path, f"{MAIL}, people: {{ann: {{email: a@b, jobs: all}}}}", unsigned)


def test_a_server_of_an_authority_of_ones_own(tmp_path: Path) -> None:
    file = Authority(tmp_path).file
    text = f"webhooks: {{ops: {{url: 'https://h', secret_file: x, ca_file: {file}}}}}, board_url: 'https://fate/'"
    found = read(tmp_path, text)
    assert (found.webhooks["webhook/ops"].ca_file, found.board) == (str(file), "https://fate")
    assert not found.subscribers.are_some


def test_a_person_whose_key_was_revoked_gets_nothing_more(tmp_path: Path) -> None:
    settings = load_settings(conf_with(tmp_path, f"{MAIL}, people: {{ann: {{email: a@b}}, ben: {{email: c@d}}}}"))
    add_client(settings.shared, "ann", ClientRole.READ, 1)
    assert why_no_more(settings, Target(EMAIL, "ann")) == ""
    revoke_client(settings.shared, "ann", ClientKeys("our-clients", "secret"), 2)
    assert why_no_more(settings, Target(EMAIL, "ann")) == "the key of ann was revoked"
    assert why_no_more(settings, Target(EMAIL, "ben")) == ""
    assert why_no_more(settings, Target(EMAIL, "eve")) == "its target is not in the configuration any more"


def test_files_of_secrets_that_cannot_be_used_are_said(tmp_path: Path) -> None:
    mail = "email: {host: h, sender: a@b, user: u, password_file: mail.password}"
    settings = load_settings(conf_with(tmp_path, f"webhooks: {{{HOOK}}}, {mail}"))
    (tmp_path / "ops.secret").write_text(SECRET, encoding="ascii")
    (tmp_path / "ops.secret").chmod(0o640)
    first, second = secret_problems(settings)
    assert first.startswith("notifications.webhooks.ops.secret_file: ")
    assert first.endswith("is of mode 0640, so other users could use the secret: chmod 600")
    assert "notifications.email.password_file: " in second
    assert second.endswith("mail.password: cannot be read: No such file or directory")


def run(folder: Path, hook: Webhooks, *arguments: str) -> Result:
    secret = folder / "ops.secret"
    secret.write_text(SECRET, encoding="ascii")
    secret.chmod(0o600)
    conf = conf_with(folder, f"webhooks: {{ops: {{url: '{hook.url}', secret_file: ops.secret}}}}")
    return CliRunner().invoke(fate_flow, [*arguments, "-c", str(conf)])


def test_a_target_can_be_tried(tmp_path: Path) -> None:
    with webhook_receiver() as hook:
        done = run(tmp_path, hook, "notify", "test", "webhook/ops")
        assert (done.exit_code, len(hook.got)) == (0, 1)
        assert b'"type": "test"' in hook.got[0][1]
        hook.status = 503
        refused = run(tmp_path, hook, "notify", "test", "webhook/ops")
        unknown = run(tmp_path, hook, "notify", "test", "email/ann")
    assert (refused.exit_code, "webhook/ops: HTTP status 503" in refused.output) == (1, True)
    assert "TARGET: 'email/ann' is no target; known here: webhook/ops" in unknown.output


def test_what_was_sent_lately_is_listed(tmp_path: Path) -> None:
    with webhook_receiver() as hook:
        assert run(tmp_path, hook, "db", "upgrade").exit_code == 0
        listed = run(tmp_path, hook, "notify", "list")
    assert (listed.exit_code, "nobody was notified of anything" in listed.output) == (0, True)
