"""What a notification says, who gets it, and how a webhook is signed."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.reasons import Reason
from fate_flow.core.notifications.notification import Occasion, notification_id, one_line
from fate_flow.core.notifications.rendering import Sender, link_of, mail_subject, mail_text, webhook_body
from fate_flow.core.notifications.retrying import MOST_TRIES, pause_after, rest_after
from fate_flow.core.notifications.sentences import WHY, of_end
from fate_flow.core.notifications.standard_webhooks import read_secrets, signed_headers
from fate_flow.core.notifications.subscribers import Person, Subscribers, Target
from tests.kit.notifications.subscribers import ALL, ANN, BEN, OPS, a_notification, a_person
from tests.kit.values import JOB_ID

SENDER = Sender("9999", "https://fate.example.org")


def test_a_signature_is_that_of_the_reference_library() -> None:
    """standardwebhooks 1.1.0 of PyPI makes this one of the same values."""
    secrets = read_secrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", "x")
    found = signed_headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', secrets)
    assert found == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }  # fmt: skip


def test_while_receivers_change_over_both_secrets_sign() -> None:
    first, second = (f"whsec_{b64encode(one * 24).decode()}" for one in (b"a", b"b"))
    both = signed_headers("msg_1", 1, b"{}", read_secrets(f"{first}\n\n{second}\n", "x"))["webhook-signature"]
    alone = [signed_headers("msg_1", 1, b"{}", read_secrets(one, "x"))["webhook-signature"] for one in (first, second)]
    assert both == " ".join(alone)


@pytest.mark.parametrize("text", ["", "secret-of-ours", "whsec_c2hvcnQ=", "whsec_!!!", f"whsec_{'A' * 88}", "a\nb\nc"])
def test_what_is_no_secret_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(BadSettings, match=r"hook\.secret_file: has") as caught:
        read_secrets(text, "hook.secret_file")
    assert not any(line in caught.value.message for line in text.split() if len(line) > 1)


def test_equal_occurrences_have_equal_ids_and_others_have_others() -> None:
    ids = [
        notification_id("9999", Occasion.JOB_ENDED, JOB_ID, 0), notification_id("9999", Occasion.JOB_ENDED, JOB_ID, 1),
        notification_id("10000", Occasion.JOB_ENDED, JOB_ID, 0), notification_id("9999", Occasion.TEST, JOB_ID, 0),
    ]  # fmt: skip
    assert len(set(ids)) == 4
    assert ids[0] == notification_id("9999", Occasion.JOB_ENDED, JOB_ID, 0)
    assert len(ids[0]) == 36


def test_every_reason_has_a_sentence() -> None:
    assert WHY.keys() == set(Reason)
    assert of_end("j1", "failed", Reason.TASK_FAILED, "host 10000") == (
        "Job j1 ended as failed: a task ended badly (the cause is at host 10000)."
    )
    assert of_end("j1", "success", Reason.DONE, "guest 9999") == "Job j1 ended as success: all of it succeeded."


def test_a_webhook_is_json_with_a_link_to_the_board() -> None:
    body = json.loads(webhook_body(a_notification(), SENDER, "ann", "2023-11-14T22:13:20.000Z"))
    assert body == {
        "type": "job_ended", "timestamp": "2023-11-14T22:13:20.000Z", "data": {
            "id": a_notification().id, "party_id": "9999", "person": "ann", "job_id": JOB_ID, "job_name": "a job",
            "run": 0, "partner": "", "status": "success", "reason": "done",
            "sentence": f"Job {JOB_ID} ended as success.",
            "link": f"https://fate.example.org/board/jobs/{JOB_ID}",
        },
    }  # fmt: skip


@pytest.mark.parametrize(("occasion", "link"), [
    (Occasion.CONTRADICTION, "/board/audit?party=10000"), (Occasion.PARTNER_SILENT, "/board"),
])  # fmt: skip
def test_a_link_leads_to_what_it_is_about(occasion: Occasion, link: str) -> None:
    found = a_notification(job_id="", job_name="", partner="10000")
    object.__setattr__(found, "occasion", occasion)
    assert link_of(found, SENDER) == SENDER.board + link
    object.__setattr__(found, "partner", "")
    assert link_of(found, SENDER) == SENDER.board + link.partition("?")[0]


def test_a_mail_says_in_its_subject_what_it_is_about() -> None:
    assert mail_subject(a_notification(), SENDER) == "[fate_flow 9999] job ended (success): a job"
    assert mail_subject(a_notification(job_name=""), SENDER).endswith(JOB_ID)
    assert len(mail_subject(a_notification(job_name="x" * 900), SENDER)) == 200
    text = mail_text(a_notification(), SENDER, "2023-11-14T22:13:20.000Z")
    assert text.startswith(f"Job {JOB_ID} ended as success.\n\nhttps://fate.example.org/board/jobs/{JOB_ID}\n")
    assert "reason: done\n" in text
    assert "partner:" not in text


@pytest.mark.parametrize(("text", "line"), [
    ("a\r\nBcc: all@example.org", "a  Bcc: all@example.org"), ("a\x00\x1b[1m\u2028b", "a? [1m b"), (" é ", "é"),
    ("x" * 200, "x" * 20),
])  # fmt: skip
def test_the_name_of_a_job_is_one_printable_line(text: str, line: str) -> None:
    assert one_line(text, 20 if len(text) > 100 else 100) == line


@pytest.mark.parametrize(("owner", "without", "targets"), [
    ("", "", [OPS]), ("ann", "", [OPS, ANN]), ("ben", "", [OPS, BEN]), ("ben", "ben", [OPS]),
])  # fmt: skip
def test_the_end_of_a_job_is_for_who_has_submitted_it(owner: str, without: str, targets: list[Target]) -> None:
    assert list(ALL.targets(Occasion.JOB_ENDED, {}, owner, without)) == targets


def test_a_person_may_have_all_jobs_and_what_this_person_chooses_of_it() -> None:
    people = {"ann": a_person("ann", Occasion.JOB_ENDED, Occasion.CONTRADICTION, has_all_jobs=True)}
    found = Subscribers({}, people)
    assert list(found.targets(Occasion.JOB_ENDED, {}, "ben")) == [ANN]
    assert list(found.targets(Occasion.JOB_ENDED, {"ann": [Occasion.CONTRADICTION]}, "ben")) == []
    assert list(found.targets(Occasion.APPROVAL_NEEDED, {"ann": [Occasion.APPROVAL_NEEDED]})) == []
    assert [found.wants(one) for one in (Occasion.JOB_ENDED, Occasion.APPROVAL_NEEDED)] == [True, False]


def test_nobody_is_notified_by_default() -> None:
    assert not Subscribers().are_some
    assert Subscribers(people={"ann": Person("ann", (ANN,), frozenset())}).are_some


def test_tries_have_an_end_and_rests_a_bound() -> None:
    pauses = [pause_after(tries) for tries in range(1, MOST_TRIES + 1)]
    assert pauses[-1] is None
    assert sorted(filter(None, pauses)) == pauses[:-1]
    assert [rest_after(failures) for failures in (0, 1, 2, 99)] == [0.0, 2.0, 4.0, 60.0]
