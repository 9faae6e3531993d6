"""flow job watch and --watch: a scripted job, on a pipe and on a terminal."""

from __future__ import annotations

import io
import json
import re

import pytest
from click.testing import CliRunner
from rich.console import Console

from fate_flow.cli.connection.client import Client
from fate_flow.cli.connection.settings_file import Address
from fate_flow.cli.flow.main import flow as flow_command
from fate_flow.cli.output.curves import sparkline
from fate_flow.cli.output.progress import LiveScreen, PlainScreen, chosen
from fate_flow.cli.output.watch import JobView, PartyTask, changes, follow, pause_after
from tests.kit.cli.stub_server import Reply

GUEST, HOST = {"role": "guest", "party_id": "9999"}, {"role": "host", "party_id": "10000"}


def a_look(status, *tasks, **more):
    """What job/explain answers; a task is (name, guest's status, host's status, version)."""
    data = {"status": status, "reason": None, "message": "", "wait_reason": "", "place_in_queue": None, "parties": [],
            "tasks": [a_task(*task) for task in tasks], "unconfirmed_parties": [], **more}
    return {"retcode": 0, "retmsg": "success", "data": data}


def a_task(name, guest, host, version=0, **at_host):
    return {"component_name": name, "task_version": version, "status": guest, "parties": [
        {**GUEST, "status": guest, "reason": None, "message": ""},
        {**HOST, "status": host, "reason": None, "message": "", **at_host},
    ]}


SCRIPT = [
    a_look("waiting", ("psi_0", "waiting", "waiting"), wait_reason="host-10000 has 2 of 8 cores free", place=3),
    a_look("waiting", ("psi_0", "waiting", "waiting"), wait_reason="host-10000 has 3 of 8 cores free"),
    a_look("running", ("psi_0", "running", "waiting")),
    a_look("running", ("psi_0", "running", "running")),
    a_look("success", ("psi_0", "success", "success")),
]


def test_every_change_is_a_line_on_a_pipe(flow, stub, pauses):
    stub.answers(*SCRIPT)
    result = flow("job", "watch", "-j", "42")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines() == [
        "job 42: waiting: host-10000 has 2 of 8 cores free",
        "job 42: waiting: host-10000 has 3 of 8 cores free",
        "job 42: waiting -> running",
        "job 42 task psi_0 guest-9999: waiting -> running",
        "job 42 task psi_0 host-10000: waiting -> running",
        "job 42 task psi_0 guest-9999: running -> success",
        "job 42 task psi_0 host-10000: running -> success",
        "job 42: running -> success",
        "job 42: success",
    ]
    assert {(one.path, one.body) for one in stub.asked} == {("/v1/job/explain", b'{"job_id": "42"}')}
    assert len(pauses) == 4


def test_each_line_names_the_job(flow, stub):
    named = {"name": "totals", "create_time": 1_699_963_200_000}
    stub.answers(a_look("running", ("psi_0", "running", "running"), **named),
                 a_look("success", ("psi_0", "success", "success"), **named))
    lines = flow("job", "watch", "-j", "42").stderr.splitlines()
    assert lines[0] == "job 42 (totals), created 2023-11-14: running"
    assert len(lines) == 7
    assert all(line.startswith("job 42 (totals)") for line in lines), lines


def test_a_party_that_does_not_answer_is_a_line_when_that_begins_and_one_when_it_is_over(flow, stub, pauses):
    silence = "host 10000 has not answered for {} s; given up in {} s"
    looks = [a_look("running", wait_reason=silence.format(one, 90 - one)) for one in (2, 3, 14)]
    stub.answers(a_look("running"), *looks, a_look("running"), a_look("success"))
    result = flow("job", "watch", "-j", "42")
    assert result.stderr.splitlines()[1:4] == [
        "job 42: running: host 10000 has not answered for 2 s; given up in 88 s",
        "job 42: running",
        "job 42: running -> success",
    ]


@pytest.mark.parametrize("status", ["failed", "canceled", "timeout"])
def test_a_job_that_ends_badly_fails_the_command(flow, stub, status):
    end = a_look(status, reason="task_failed", message="psi_0 failed at host-10000")
    end["data"]["tasks"] = [a_task("psi_0", "canceled", "failed", reason="worker_error", message="no id column")]
    stub.answers(a_look("running", ("psi_0", "running", "running")), end)
    result = flow("job", "watch", "-j", "42")
    assert result.exit_code == 1
    assert "job 42 task psi_0 host-10000: running -> failed: worker_error: no id column" in result.stderr
    assert f"job 42: {status}: psi_0 failed at host-10000" in result.stderr
    assert "flow job explain -j 42" in result.stderr


def test_a_submitted_job_is_watched_and_stdout_holds_the_answer_to_the_submit_alone(flow, stub, write_json):
    accepted = {"retcode": 0, "retmsg": "success", "jobId": "42", "data": {"code": 0}}
    stub.answers(accepted, *SCRIPT)
    result = flow("job", "submit", "-c", write_json("conf.json", {}), "--watch")
    assert (result.exit_code, json.loads(result.stdout)) == (0, accepted)
    assert "job 42: running -> success" in result.stderr


def test_a_refused_submit_is_not_watched(flow, stub, write_json):
    stub.answers({"retcode": 103, "retmsg": "no", "jobId": "42"})
    assert flow("job", "submit", "-c", write_json("conf.json", {}), "--watch").exit_code == 1
    assert len(stub.asked) == 1


def test_a_job_that_cannot_be_looked_at_leaves_one_document_on_stdout(flow, stub, write_json):
    stub.answers({"retcode": 0, "retmsg": "success", "jobId": "42"}, {"retcode": 102, "retmsg": "can not found job"})
    result = flow("job", "submit", "-c", write_json("conf.json", {}), "--watch")
    assert (result.exit_code, json.loads(result.stdout)["jobId"]) == (1, "42")
    assert result.stderr == "Error: can not found job\n"


def test_an_unknown_job_is_refused(flow, stub):
    stub.answers({"retcode": 102, "retmsg": "can not found job"})
    result = flow("job", "watch", "-j", "7")
    assert (result.exit_code, json.loads(result.stdout)["retcode"]) == (1, 102)


def test_a_server_in_trouble_is_asked_again_and_that_is_told_once(flow, stub):
    trouble = Reply(503, {"retcode": 503, "retmsg": "too busy"})
    stub.answers(SCRIPT[2], trouble, Reply(502, {"retcode": 502, "retmsg": "later"}), SCRIPT[-1])
    result = flow("job", "watch", "-j", "42")
    assert result.exit_code == 0
    assert result.stderr.count("trying again") == 1


def test_a_server_that_comes_back_is_watched_on(stub):
    addresses = [Address("http://127.0.0.1:1"), Address(stub.url)]
    client = Client(lambda: addresses[0])

    def restart(_seconds):
        vars(client).pop("_address", None)
        addresses[:] = addresses[-1:]

    client.pause = restart
    stub.answers(SCRIPT[-1])
    result = CliRunner().invoke(flow_command, ["job", "watch", "-j", "42"], obj=client)
    assert result.exit_code == 0
    assert "no server answers at http://127.0.0.1:1: is it started? bin/service.sh start; trying again" in result.stderr


def test_a_server_that_stays_away_ends_the_watch(monkeypatch):
    monkeypatch.setattr("fate_flow.cli.output.watch.PATIENCE_SECONDS", -1.0)
    result = CliRunner().invoke(flow_command, ["--server", "http://127.0.0.1:1", "job", "watch", "-j", "42"])
    assert (result.exit_code, json.loads(result.stdout)["retcode"]) == (3, 100)


def test_ctrl_c_leaves_the_job_running_and_says_so(stub):
    def interrupt(_seconds):
        raise KeyboardInterrupt

    stub.answers(SCRIPT[2])
    client = Client(lambda: Address(stub.url), pause=interrupt)
    result = CliRunner().invoke(flow_command, ["job", "watch", "-j", "42"], obj=client)
    assert result.exit_code == 130
    assert "job 42 runs on" in result.stderr
    assert {one.path for one in stub.asked} == {"/v1/job/explain"}


def test_a_restarted_task_shows_its_new_version():
    before, after = (JobView("42", "running", tasks=(PartyTask("a", "guest-1", *one),)) for one in [
        (0, "failed"), (1, "waiting")])
    assert list(changes(before, after)) == ["job 42 task a guest-1: failed -> waiting (version 1)"]


RETRY = "psi_0 begins again as version 1 "
RESTARTING = {"status_detail": "restarting"}


def restarts(guest, host, version=0, **more):
    look = a_look("running", ("psi_0", guest, host, version), **more)
    look["data"]["tasks"][0] |= RESTARTING
    return look


def test_what_starts_again_is_restarting_until_it_runs(flow, stub):
    stub.answers(
        a_look("running", ("psi_0", "running", "running")),
        restarts("running", "failed", wait_reason=f"{RETRY}when guest 9999 has stopped"),
        restarts("waiting", "waiting", 1, wait_reason=f"{RETRY}in 9 s"),
        a_look("running", ("psi_0", "running", "running", 1)),
        restarts("running", "running", 1, **RESTARTING), a_look("success", ("psi_0", "success", "success", 1)),
    )  # fmt: skip
    assert flow("job", "watch", "-j", "42").stderr.splitlines()[3:-4] == [
        f"job 42: running: {RETRY}when guest 9999 has stopped",
        "job 42 task psi_0 guest-9999: running -> restarting",
        "job 42 task psi_0 host-10000: running -> failed",
        f"job 42: running: {RETRY}in 9 s",
        "job 42 task psi_0 guest-9999: restarting -> restarting (version 1)",
        "job 42 task psi_0 host-10000: failed -> restarting (version 1)",
        "job 42: running",
        "job 42 task psi_0 guest-9999: restarting -> running",
        "job 42 task psi_0 host-10000: restarting -> running",
        "job 42: running -> restarting",
        "job 42 task psi_0 guest-9999: running -> restarting",
        "job 42 task psi_0 host-10000: running -> restarting",
    ]


def test_a_terminal_shows_what_starts_again_and_what_that_waits_for(stub, pauses):
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=80, height=20, color_system=None)
    waits_for = f"{RETRY}when guest 9999 has stopped"
    stub.answers(restarts("running", "failed", wait_reason=waits_for, **RESTARTING), SCRIPT[-1])
    follow(Client(lambda: Address(stub.url), pause=pauses.append), "42", LiveScreen(console, clock=lambda: 0.0))
    text = output.getvalue()
    assert re.search(r"job 42 +restarting +━* +1/2 ", text)
    assert waits_for in text
    assert re.search(r"psi_0 +│ restarting +│ failed ", text)


def test_while_nothing_is_new_a_pipe_is_told_so_at_growing_intervals(capsys):
    now = [0.0]
    screen, view = PlainScreen(lambda: now[0]), JobView.of("42", SCRIPT[3]["data"])
    for seconds in range(40):
        now[0] = seconds
        screen.show(view)
    screen.show(JobView.of("42", SCRIPT[4]["data"]))
    described = capsys.readouterr().err.splitlines()
    still = "job 42: still running after {} s: psi_0 runs at guest-9999, host-10000"
    assert described[3:-3] == [still.format(seconds) for seconds in (5, 10, 20)]


def test_nothing_new_is_no_line():
    view = JobView.of("42", SCRIPT[0]["data"])
    assert list(changes(view, view)) == []


@pytest.mark.parametrize("data", [{}, {"tasks": None}, {"tasks": [{}]}, {"tasks": [{"parties": [{}]}]}])
def test_an_answer_that_says_little_is_no_reason_to_die(data):
    assert not JobView.of("42", data).is_final


def test_a_terminal_shows_a_table_in_place(stub, pauses):
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=80, height=20, color_system=None)
    stub.answers(*SCRIPT)
    follow(Client(lambda: Address(stub.url), pause=pauses.append), "42", LiveScreen(console, clock=lambda: 0.0))
    text = output.getvalue()
    assert "host-10000 has 2 of 8 cores free" in text
    last = text[text.rindex("job 42"):]
    assert "success" in last
    assert "2/2" in last
    assert "guest-9999" in last
    assert "\x1b[?25h" in text, "the cursor is shown again"


def test_a_terminal_shows_why_a_task_failed(stub, pauses):
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=80, height=20, color_system=None)
    end = a_look("failed")
    end["data"]["tasks"] = [a_task("psi_0", "canceled", "failed", reason="worker_error", message="no id column")]
    stub.answers(end)
    with pytest.raises(SystemExit):
        follow(Client(lambda: Address(stub.url), pause=pauses.append), "42", LiveScreen(console))
    assert "psi_0 host-10000: worker_error: no id column" in output.getvalue()


def test_names_of_another_party_cannot_style_the_table(stub, pauses):
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=80, height=20, color_system=None)
    end = a_look("success", ("[bold]a", "success", "\x1b[2Jx"))
    end["data"]["tasks"][0]["parties"][0]["party_id"] = "[/nothing]"
    stub.answers(end)
    follow(Client(lambda: Address(stub.url), pause=pauses.append), "42", LiveScreen(console, clock=lambda: 0.0))
    assert "[bold]a" in output.getvalue()
    assert "guest-[/nothing]" in output.getvalue()
    assert "\x1b[2J" not in output.getvalue()


def test_a_long_job_shows_what_moves():
    tasks = [PartyTask(f"t{number}", "guest-1", 0, status) for number, status in enumerate(
        ["success"] * 30 + ["running"] * 2 + ["waiting"] * 30 + ["failed"])]
    assert chosen(tasks, 5) == ["t30", "t31", "t32", "t33", "t62"]
    assert len(chosen(tasks, 100)) == 63


# ---------------------------------------------------------------------- metrics


def some_points(last, *points, name="loss", **more):
    """What job/metrics answers, up to the number `last`."""
    curve = {"component_name": "lr_0", **GUEST, "task_version": 0, "namespace": "default", "name": name,
             "axis": "iterations", "points": [[*point, 1.5] for point in points], **more}
    return {"retcode": 0, "retmsg": "success", "data": {"curves": [curve] if points else [], "next": last}}


def lr_runs(newest, status="running"):
    return a_look(status, ("lr_0", status, status), newest_metric=newest)


def test_the_loss_of_each_iteration_is_a_line_on_a_pipe(flow, stub):
    stub.answers(
        lr_runs(0), lr_runs(2), some_points(2, (0, 0.69314718), (1, [0.5])), lr_runs(2), lr_runs(3),
        some_points(3, (2, "NaN")), lr_runs(5, "success"), some_points(4, (3, 0.25), namespace="default/fold-1"),
        some_points(5, (0, 0.69314718), (1, [0.5]), (2, "NaN"), (3, 0.125)),
    )  # fmt: skip
    result = flow("job", "watch", "-j", "42")
    assert [line for line in result.stderr.splitlines() if "loss" in line or "success" in line] == [
        "job 42 task lr_0 guest-9999: loss 0.693147, 0.5 (iterations 0 to 1)",
        "job 42 task lr_0 guest-9999: loss NaN (iterations 2)",
        "job 42 task lr_0 guest-9999: fold-1/loss 0.25 (iterations 3)",
        "job 42 task lr_0 guest-9999: loss 0.125 (iterations 3)",
        "job 42 task lr_0 guest-9999: running -> success",
        "job 42 task lr_0 host-10000: running -> success",
        "job 42: running -> success",
        "job 42: success",
    ], "points that are said again are not shown again"
    after = [one.json["after"] for one in stub.asked if one.path == "/v1/job/metrics"]
    assert after == [0, 2, 3, 4]


def test_of_a_job_that_has_run_for_long_the_last_point_is_shown_and_of_many_the_last_ones(flow, stub):
    stub.answers(
        lr_runs(1), some_points(1, *((step, step / 4) for step in range(50))), lr_runs(2),
        some_points(2, *((50 + step, step) for step in range(9))), lr_runs(2, "success"),
    )  # fmt: skip
    lines = [line for line in flow("job", "watch", "-j", "42").stderr.splitlines() if "loss" in line]
    assert lines == [
        "job 42 task lr_0 guest-9999: loss 12.25 (iterations 49)",
        "job 42 task lr_0 guest-9999: loss ..., 1, 2, 3, 4, 5, 6, 7, 8 (iterations 50 to 58)",
    ]


@pytest.mark.parametrize("answer", [
    {"retcode": 404, "retmsg": "no such path"}, Reply(503, {"retcode": 503, "retmsg": "too busy"}),
    {"retcode": 0, "retmsg": "success", "data": {"curves": [], "next": 0}},
])  # fmt: skip
def test_a_job_is_watched_on_without_its_metrics(flow, stub, answer):
    stub.answers(lr_runs(1), answer, lr_runs(1, "success"), answer)
    result = flow("job", "watch", "-j", "42")
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (0, "job 42: success")


def test_a_terminal_shows_the_course_of_a_curve_and_its_last_value(stub, pauses):
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=80, height=20, color_system=None)
    stub.answers(lr_runs(1), some_points(1, *((step, 1 - step / 7) for step in range(8))), lr_runs(1, "success"))
    follow(Client(lambda: Address(stub.url), pause=pauses.append), "42", LiveScreen(console, clock=lambda: 0.0))
    assert "lr_0 guest-9999 loss █▇▆▅▄▃▂▁ 0 (iterations 7)" in output.getvalue()


@pytest.mark.parametrize(("values", "bars"), [
    ([1], ""), ([1, "NaN"], ""), ([2, 2, 2], "▁▁▁"), ([0, 7], "▁█"), (range(38), "▁▁▁▂▂▂▂▃▃▃▃▄▄▄▄▅▅▅▅▆▆▆▆▇▇▇▇███"),
])  # fmt: skip
def test_a_sparkline_shows_the_last_values(values, bars):
    assert sparkline([(step, value) for step, value in enumerate(values)]) == bars


@pytest.mark.parametrize(("watched", "pause"), [(0.0, 0.1), (0.9, 0.1), (2.0, 0.2), (5.0, 0.5), (3_600.0, 0.5)])
def test_the_end_of_a_short_job_is_seen_soon(watched: float, pause: float) -> None:
    assert pause_after(watched) == pytest.approx(pause)
