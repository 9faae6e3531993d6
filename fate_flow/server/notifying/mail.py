"""Send a notification as a mail: plain text, to one person."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from functools import cached_property

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.notifications.rendering import Sender, mail_subject, mail_text
from fate_flow.peers.network_errors import describe_cause
from fate_flow.server.notifying.sending import LONGEST_WAIT, SENT, Outcome, cut, moment_of
from fate_flow.server.notifying.webhook import text_of_secret
from fate_flow.settings.notifications import NO_TLS, STARTTLS, TLS, MailServer
from fate_flow.store.values import StoredNotification

_FOR_GOOD = 500              # from this reply of SMTP on, another try gets the same one


class MailSending:
    """Sends over one mail server. The password is read for each mail, so it may change without a restart."""

    def __init__(self, server: MailServer, addresses: Mapping[str, str], sender: Sender) -> None:
        self._server, self._addresses, self._sender = server, addresses, sender
        self._smtp: smtplib.SMTP | None = None

    def send(self, one: StoredNotification) -> Outcome:
        address = self._addresses[one.target.person]
        try:
            with self._connected() as smtp:
                smtp.send_message(self._mail(one, address), self._server.sender, [address])
        except BadSettings as error:
            return Outcome(error.message)
        except smtplib.SMTPRecipientsRefused as error:
            code = max(reply[0] for reply in error.recipients.values())
            return Outcome(f"the mail server refuses the address (SMTP {code})", code >= _FOR_GOOD, is_of_channel=False)
        except smtplib.SMTPDataError as error:
            code = error.smtp_code
            return Outcome(f"the mail server refuses the mail (SMTP {code})", code >= _FOR_GOOD, is_of_channel=False)
        except smtplib.SMTPAuthenticationError as error:
            return Outcome(f"the mail server refuses the login (SMTP {error.smtp_code})")
        except smtplib.SMTPResponseException as error:
            return Outcome(f"the mail server refuses (SMTP {error.smtp_code})")
        except smtplib.SMTPNotSupportedError:
            return Outcome("the mail server does not offer what the configuration needs: STARTTLS, or a login")
        except smtplib.SMTPServerDisconnected:
            return Outcome("connection lost")
        except OSError as error:
            return Outcome(describe_cause(error) or "no connection to the mail server")
        return SENT

    def abort(self) -> None:
        cut(getattr(self._smtp, "sock", None))

    def _connected(self) -> smtplib.SMTP:
        """Return a connection, over TLS if it is to have it, with the login done."""
        server = self._server
        domain = server.sender.rpartition("@")[2]        # the name of this machine may take long to find
        smtp: smtplib.SMTP
        if server.security == TLS:
            smtp = smtplib.SMTP_SSL(server.host, server.port, domain, timeout=LONGEST_WAIT, context=self._tls)
        else:
            smtp = smtplib.SMTP(server.host, server.port, domain, timeout=LONGEST_WAIT)
        self._smtp = smtp
        try:
            if server.security == STARTTLS:
                smtp.starttls(context=self._tls)
            if server.password_file is not None and server.security != NO_TLS:
                name = "notifications.email.password_file"
                smtp.login(server.user, text_of_secret(server.password_file, name).rstrip("\r\n"))
        except BaseException:
            smtp.close()
            raise
        return smtp

    def _mail(self, one: StoredNotification, address: str) -> EmailMessage:
        """Return the mail. Its id is the same in each try, so that a mailbox can know it."""
        about, domain, mail = one.notification, self._server.sender.rpartition("@")[2], EmailMessage(SMTP)
        mail["From"], mail["To"] = self._server.sender, address
        mail["Subject"] = mail_subject(about, self._sender)
        mail["Date"] = datetime.fromtimestamp(about.at / 1000, UTC)
        mail["Message-ID"] = f"<{about.id}.{one.number}@{domain}>"
        mail["Auto-Submitted"] = "auto-generated"
        mail.set_content(mail_text(about, self._sender, moment_of(about.at)))
        return mail

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self._server.ca_file or None)
