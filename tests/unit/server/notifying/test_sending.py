"""One try over a webhook and one mail, with real receivers on loopback."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from email import message_from_string
from email.policy import default
from pathlib import Path

import pytest

from fate_flow.core.notifications.rendering import Sender
from fate_flow.core.notifications.standard_webhooks import read_secrets, signed_headers
from fate_flow.core.notifications.subscribers import Target
from fate_flow.server.notifying import sending
from fate_flow.server.notifying.mail import MailSending
from fate_flow.server.notifying.sending import SENT, Outcome, Try
from fate_flow.server.notifying.webhook import WebhookSending
from fate_flow.settings.notifications import NO_TLS, STARTTLS, MailServer, Webhook
from fate_flow.store.values import StoredNotification
from tests.kit.notifications.receivers import Mailbox, mail_receiver, nobody_listens, webhook_receiver
from tests.kit.notifications.subscribers import ANN, a_notification
from tests.kit.tls import Authority
from tests.kit.waiting import eventually

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SENDER = Sender("9999", "https://fate.example.org")
HOOKED = StoredNotification(7, Target("webhook/ops", "ann"), a_notification(job_name="naïve\u2028name"))
MAILED = StoredNotification(8, ANN, a_notification(job_name="Übung \r\nBcc: all@example.org"))


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "hook.secret"
    file.write_text(f"{SECRET}\n", encoding="ascii")
    file.chmod(0o600)
    return file


def posted(url: str, secret: Path, ca_file: str = "") -> Outcome:
    return WebhookSending(Webhook(url, secret, ca_file), "hook", SENDER, lambda: 1_700_000_123).send(HOOKED)


def test_a_webhook_is_signed_over_what_is_sent(secret: Path) -> None:
    with webhook_receiver() as hook:
        assert posted(hook.url, secret) == SENT
    ((headers, body),) = hook.got
    expected = signed_headers(HOOKED.notification.id, 1_700_000_123, body, read_secrets(SECRET, ""))
    assert {name: headers[name] for name in expected} == expected
    assert headers["content-type"] == "application/json"
    data = json.loads(body)["data"]
    assert (data["id"], data["person"]) == (HOOKED.notification.id, "ann")
    assert SECRET not in repr(hook.got)


@pytest.mark.parametrize(("status", "outcome"), [
    (500, Outcome("HTTP status 500")), (429, Outcome("HTTP status 429")),
    (400, Outcome("HTTP status 400", is_of_channel=False)),
    (410, Outcome("HTTP status 410", is_final=True, is_of_channel=False)),
    (302, Outcome("HTTP status 302: redirects are not followed")),
])  # fmt: skip
def test_what_a_receiver_answers(secret: Path, status: int, outcome: Outcome) -> None:
    with webhook_receiver() as other, webhook_receiver() as hook:
        hook.status, hook.location = status, other.url if status == 302 else ""
        assert posted(hook.url, secret) == outcome
    assert other.got == []


def test_a_receiver_that_is_down(secret: Path) -> None:
    assert posted(f"http://127.0.0.1:{nobody_listens()}/?token=hidden", secret) == Outcome("connection refused")


def test_only_a_server_with_a_certificate_of_a_known_authority_is_believed(secret: Path, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with webhook_receiver(authority.server_context()) as hook:
        assert posted(hook.url, secret, str(authority.file)) == SENT
        refused = posted(hook.url, secret)
    assert refused.error.startswith("no TLS connection")
    assert len(hook.got) == 1


def test_a_secret_that_others_may_read_signs_nothing(secret: Path) -> None:
    secret.chmod(0o644)
    with webhook_receiver() as hook:
        found = posted(hook.url, secret)
    assert found.error == f"hook.secret_file: {secret}: is of mode 0644, so other users could use the secret: chmod 600"
    assert hook.got == []


def test_a_secret_that_is_no_file_is_told_and_not_waited_for(secret: Path) -> None:
    secret.unlink()
    os.mkfifo(secret, 0o600)         # nobody ever writes into it
    with webhook_receiver() as hook:
        found = posted(hook.url, secret)
    assert found.error == f"hook.secret_file: {secret}: cannot be read: Not a regular file"
    assert hook.got == []


def test_a_receiver_that_hangs_is_left_after_a_while(secret: Path) -> None:
    seconds = [0.0]
    with webhook_receiver() as hook:
        hook.hangs = threading.Event()
        way = WebhookSending(Webhook(hook.url, secret), "hook", SENDER)
        one = Try(HOOKED, way, lambda: seconds[0])
        eventually(lambda: hook.got, "the request")
        assert one.look() is None
        seconds[0] = sending.LONGEST_TRY + 1
        found = eventually(one.look, "the end of the try")
    assert found == Outcome("the receiver had not taken it after 30 s")


# ---------------------------------------------------------------------- mail


def mailed(box: Mailbox, security: str = NO_TLS, ca_file: str = "", password: Path | None = None) -> Outcome:
    user = "fate" if password else ""
    server = MailServer("127.0.0.1", box.port, security, "fate@bank.example", ca_file, user, password)
    return MailSending(server, {"ann": "ann@bank.example"}, SENDER).send(MAILED)


def test_a_mail_is_plain_text_whose_headers_the_name_of_a_job_cannot_change() -> None:
    with mail_receiver() as box:
        assert mailed(box) == SENT
    ((address, text),) = box.mails
    mail = message_from_string(text, policy=default)
    assert address == "ann@bank.example"
    assert [mail[name] for name in ("From", "To", "Bcc", "Auto-Submitted")] == [
        "fate@bank.example", "ann@bank.example", None, "auto-generated",
    ]  # fmt: skip
    assert mail["Subject"] == "[fate_flow 9999] job ended (success): Übung   Bcc: all@example.org"
    assert mail["Message-ID"] == f"<{MAILED.notification.id}.8@bank.example>"
    assert mail.get_content_type() == "text/plain"
    assert "https://fate.example.org/board/jobs/" in mail.get_content()


def test_a_login_is_sent_over_tls_alone(tmp_path: Path, secret: Path) -> None:
    authority = Authority(tmp_path)
    with mail_receiver(authority.server_context()) as box:
        assert mailed(box, STARTTLS, str(authority.file), secret) == SENT
        sent = [one.split(" ")[0].upper() for one in box.commands]
        assert sent.index("STARTTLS") < sent.index("AUTH") < sent.index("MAIL")
        assert mailed(box, STARTTLS, "", secret).error.startswith("no TLS connection")
    assert len(box.mails) == 1


def test_a_server_that_offers_no_tls_gets_no_login_and_no_mail(secret: Path) -> None:
    with mail_receiver() as box:
        found = mailed(box, STARTTLS, "", secret)
    assert found.error == "the mail server does not offer what the configuration needs: STARTTLS, or a login"
    assert (box.mails, [one for one in box.commands if one.startswith("AUTH")]) == ([], [])


@pytest.mark.parametrize(("word", "reply", "outcome"), [
    ("RCPT", "550 no such user", Outcome("the mail server refuses the address (SMTP 550)", True, is_of_channel=False)),
    ("RCPT", "451 later", Outcome("the mail server refuses the address (SMTP 451)", is_of_channel=False)),
    ("DATA", "554 spam", Outcome("the mail server refuses the mail (SMTP 554)", True, is_of_channel=False)),
    ("MAIL", "421 busy", Outcome("the mail server refuses (SMTP 421)")),
])  # fmt: skip
def test_what_a_mail_server_refuses(word: str, reply: str, outcome: Outcome) -> None:
    with mail_receiver() as box:
        box.replies[word] = reply
        assert mailed(box) == outcome
    assert box.mails == []


def test_a_mail_server_that_is_down() -> None:
    assert mailed(Mailbox(nobody_listens())) == Outcome("connection refused")


def test_what_fails_in_an_unknown_way_was_not_sent() -> None:
    class Broken:
        def send(self, one: StoredNotification) -> Outcome:
            raise RuntimeError(one.notification.id)

        def abort(self) -> None: ...

    found: Callable[[], Outcome | None] = Try(MAILED, Broken(), lambda: 0.0).look
    assert eventually(found) == Outcome("unexpected RuntimeError")
