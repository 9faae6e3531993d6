"""flow test toy (client-api-v1, sections 3.6 and 4.6)."""

from __future__ import annotations

import pytest

from tests.kit.cli.stub_server import OK, archive

ACCEPTED = {**OK, "jobId": "42", "data": {}}
TOY = ("test", "toy", "-gid", "9999", "-hid", "10000")
LOGS = archive({
    "guest/9999/INFO.log": "noise\n[INFO] secure_add_guest: success to calculate secure_sum, it is 2000\n",
    "guest/9999/ERROR.log": "[ERROR] no route to host\n",
})


def rows(status, **more):
    return {**OK, "data": [{"f_status": status, **more}]}


def test_a_toy_job_is_submitted_polled_and_its_sum_printed(flow, stub, pauses, tmp_path):
    stub.answers(ACCEPTED, {**OK, "data": []}, rows("running"), rows("success"), LOGS)
    result = flow(*TOY, "--task-cores", "3")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "toy test job 42 is running", "toy test job 42 is success",
        "[INFO] secure_add_guest: success to calculate secure_sum, it is 2000",
    ]
    assert [one.path for one in stub.asked] == [
        "/v1/job/submit", *["/v1/job/query"] * 3, "/v1/job/log/download"]
    assert pauses == [1.0, 1.0]
    conf = stub.asked[0].json["job_runtime_conf"]
    assert stub.asked[0].json["job_dsl"] == {"components": {"secure_add_example_0": {"module": "SecureAddExample"}}}
    assert conf["initiator"] == {"role": "guest", "party_id": "9999"}
    assert conf["role"] == {"guest": ["9999"], "host": ["10000"]}
    assert conf["job_parameters"]["common"] == {"task_cores": 3}
    assert conf["component_parameters"]["common"] == {"secure_add_example_0": {"partition": 4, "data_num": 1000}}
    assert stub.asked[1].json == {"job_id": "42", "role": "guest", "party_id": "9999"}
    assert (tmp_path / "logs" / "toy" / "job_42_log" / "guest" / "9999" / "INFO.log").is_file()


def test_what_a_toy_job_waits_for_is_a_line_and_so_is_why_it_ended(flow, stub, pauses):
    cut_off = "host 10000 cannot reach guest 9999 (connection refused, for {} s)"
    waits = [rows("running", f_wait_reason=f"{cut_off.format(one)}; given up in {90 - one} s") for one in (5, 6)]
    end = rows("failed", f_reason="party_unreachable", f_message=cut_off.format(90))
    stub.answers(ACCEPTED, rows("running"), rows("running"), *waits, end, LOGS)
    assert flow(*TOY).stdout.splitlines()[:3] == [
        "toy test job 42 is running",
        f"toy test job 42 is running: {cut_off.format(5)}; given up in 85 s",
        f"toy test job 42 is failed: party_unreachable: {cut_off.format(90)}",
    ]


def test_a_toy_job_may_be_restarting(flow, stub):
    again = rows("running", f_status_detail="restarting", f_wait_reason="a begins again")
    stub.answers(ACCEPTED, again, rows("success"), LOGS)
    assert flow(*TOY).stdout.splitlines()[:2] == [
        "toy test job 42 is restarting: a begins again", "toy test job 42 is success",
    ]


@pytest.mark.parametrize("status", ["failed", "canceled", "timeout"])
def test_a_toy_job_that_ends_badly_prints_the_errors(flow, stub, status):
    stub.answers(ACCEPTED, rows(status), LOGS)
    result = flow(*TOY)
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "[ERROR] no route to host"


def test_a_toy_job_is_not_waited_for_for_ever(flow, stub, pauses):
    stub.answers(ACCEPTED, rows("waiting"), rows("waiting"), archive({"a": ""}))
    result = flow(*TOY, "--timeout", "2")
    assert (result.exit_code, len(pauses)) == (1, 2)
    assert "check job status timeout" in result.stdout
    assert "did not send this log" in result.stderr


def test_a_toy_job_that_is_refused_is_printed(flow, stub):
    stub.answers({"retcode": 103, "retmsg": "party 10000: no route", "jobId": "42"})
    result = flow(*TOY)
    assert (result.exit_code, len(stub.asked)) == (1, 1)
    assert "no route" in result.stdout


def test_logs_that_cannot_be_had_do_not_hide_how_the_job_ended(flow, stub):
    stub.answers(ACCEPTED, rows("success"), {"retcode": 404, "retmsg": "no logs"})
    result = flow(*TOY)
    assert result.exit_code == 0
    assert "no logs" in result.stderr
