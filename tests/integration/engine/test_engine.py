"""The local engine with a real spawner, real runners and real workers."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from fate_flow.engines.local.engine import living_workers
from fate_flow.engines.local.worker import EXIT, LAUNCH, RUNNER, Exit, WorkerSpec
from tests.kit.servers.engine_site import POLITE, SPAWNER, is_running, line_in, started
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(900)


# How a worker starts

def test_a_worker_finds_its_runner_file_before_its_first_instruction(site):
    runner = shlex.quote(str(site.home / "jobs" / "w" / RUNNER))
    folder = site.shell(f"cat {runner}; echo; echo $$; cut -d' ' -f5 /proc/$$/stat")
    assert site.end_of(folder) == Exit(0, None, "exited")
    written, pid, group = site.output_of(folder).split("\n")[:3]
    assert json.loads(written) == json.loads((folder / RUNNER).read_text())
    assert json.loads(written)["pid"] == int(pid) == int(group)
    assert site.engine.observe(folder).process == started(folder).worker


def test_without_a_runner_file_a_worker_has_no_first_instruction(site):
    spec = site.spec("echo", "ran")
    (spec.folder / RUNNER).mkdir(parents=True)    # cannot be replaced by a file
    site.launch(spec)
    eventually(lambda: (spec.folder / EXIT).exists())
    assert Exit.read(spec.folder).cause == "not_started"
    assert not spec.stdout.exists()
    (spec.folder / RUNNER).rmdir()


def test_a_worker_has_its_environment_folder_and_files(site):
    script = "echo $FLAVOUR; pwd; cat; echo problem >&2; ls /proc/self/fd | wc -l"
    folder = site.shell(script, env={"FLAVOUR": "mint"}, cwd=Path("/usr"))
    assert site.end_of(folder).exit_code == 0
    # `cat` ended: stdin is empty. ls has 0, 1, 2 and the folder it lists: nothing was inherited.
    assert site.output_of(folder).split() == ["mint", "/usr", "4"]
    assert site.output_of(folder, "err.log") == "problem\n"


def test_output_is_appended_to_what_earlier_attempts_wrote(site):
    for name, text in (("w1", "one"), ("w2", "two")):
        both = {"stdout": site.home / "both.log", "stderr": site.home / "both.log"}
        spec = WorkerSpec(name, site.home / "jobs" / name, "mine", "exec", ("echo", text), site.home, **both)
        site.end_of(site.launch(spec))
    assert (site.home / "both.log").read_text() == "one\ntwo\n"


SAID = "[fate_flow] what follows is dropped: commands.output_max_bytes is 1000\n[fate_flow] {} bytes were dropped\n"


def test_what_is_printed_beyond_the_bound_is_dropped_and_counted_and_nobody_waits(site):
    chatty = "import sys; sys.stdout.write('x' * 5_000_000); sys.stderr.write('e' * 1000); sys.exit(3)"
    folder = site.python(chatty, output_max_bytes=1000)
    assert site.end_of(folder) == Exit(3, None, "exited")
    assert site.output_of(folder) == "x" * 1000 + "\n" + SAID.format(4_999_000)
    assert site.output_of(folder, "err.log") == "e" * 1000


def test_what_is_kept_is_there_while_the_worker_runs_and_its_last_words_too(site):
    folder = site.python(POLITE, output_max_bytes=1000)
    line_in(site.home / "logs" / "w" / "std.log")
    site.engine.stop(folder, 90)
    assert site.end_of(folder) == Exit(5, None, "stopped")
    assert site.output_of(folder) == "ready\ndone\n"


def test_a_stream_that_somebody_else_holds_keeps_no_worker_from_its_end(site):
    """A process that the worker did not leave behind: this one, which has opened its pipe."""
    folder = site.shell("echo here; exec sleep 100", output_max_bytes=1000)
    line_in(site.home / "logs" / "w" / "std.log")
    with open(f"/proc/{started(folder).worker.pid}/fd/1", "wb"):
        site.engine.stop(folder, 0)
        assert site.end_of(folder).cause == "stopped"
    assert site.output_of(folder) == "here\n"


def test_a_disk_that_takes_nothing_more_drops_the_rest(site):
    """/dev/full takes nothing at all."""
    spec = site.spec("/bin/sh", "-c", "echo lost; echo here >&2", output_max_bytes=1000)
    spec.stdout.parent.mkdir(parents=True)
    spec.stdout.symlink_to("/dev/full")
    assert site.end_of(site.launch(spec)) == Exit(0, None, "exited")
    assert site.output_of(spec.folder, "err.log") == "here\n"


def test_a_file_that_cannot_be_opened_is_a_launch_that_failed(site):
    spec = site.spec("/bin/true", output_max_bytes=1000)
    spec.stdout.mkdir(parents=True)
    end = site.end_of(site.launch(spec))
    assert (end.cause, str(spec.stdout) in end.message, "directory" in end.message) == ("not_started", True, True), end


def test_a_builtin_runs_without_exec_as_in_a_fresh_python(executed):
    folder = executed.builtin("report", env={"FLAVOUR": "mint"}, cwd=Path("/usr"))
    assert executed.end_of(folder) == Exit(0, None, "exited")
    seen = json.loads(executed.output_of(folder))
    assert (seen["env"], seen["cwd"], seen["gc"]) == ("mint", "/usr", True)
    assert (seen["blocked"], seen["term"]) == ([], True)
    logs = [str(executed.home / "logs" / "w" / name) for name in ("std.log", "err.log")]
    assert [seen["fds"][number] for number in ("0", "1", "2")] == [os.devnull, *logs]
    assert {target for number, target in seen["fds"].items() if int(number) > 2} <= {os.devnull}


def test_what_a_builtin_prints_beyond_the_bound_of_a_log_file_is_dropped_and_counted(site):
    folder = site.builtin("print", "3000000", output_max_bytes=1000, output_setting="log.file_max_bytes")
    assert site.end_of(folder) == Exit(0, None, "exited")
    for name, letter in (("std.log", "x"), ("err.log", "e")):
        said = SAID.replace("commands.output_max_bytes", "log.file_max_bytes").format(2_999_000)
        assert site.output_of(folder, name) == letter * 1000 + "\n" + said


def test_the_traceback_of_a_builtin_whose_output_is_bounded_goes_to_its_error_file(site):
    folder = site.builtin("raise", output_max_bytes=100_000)
    assert site.end_of(folder) == Exit(1, None, "exited")
    assert "OSError: the component's own error" in site.output_of(folder, "err.log")


def test_an_inherited_log_handler_writes_nowhere(site):
    site.end_of(site.builtin("return", "0"))
    assert "inherited handler" not in (site.home / "spawner.log").read_text()


@pytest.mark.parametrize(("argv", "code"), [
    (("return", "3"), 3), (("exit", "a message"), 1), (("raise",), 1), (("other",), 0),
])
def test_a_builtin_ends_with_the_code_a_python_would_end_with(site, argv, code):
    assert site.end_of(site.builtin(*argv)) == Exit(code, None, "exited")


def test_the_traceback_of_a_builtin_goes_to_its_error_file(site):
    folder = site.builtin("raise")
    site.end_of(folder)
    assert "OSError: the component's own error" in site.output_of(folder, "err.log")


def test_launched_many_times_it_runs_once(site):
    spec = site.spec("/bin/sh", "-c", "echo ran")
    for _ in range(20):
        site.launch(spec)
    last = site.shell("true", name="after")    # orders are served one after the other
    site.end_of(last)
    site.end_of(spec.folder)
    site.launch(spec)
    assert site.output_of(spec.folder) == "ran\n"


def test_the_wakeup_comes_at_start_and_end(site):
    folder = site.shell("true")
    site.wakeup.settimeout(90)
    rings = [json.loads(site.wakeup.recv(1000)) for _ in range(2)]
    assert rings == [{"worker": folder.name, "event": event} for event in ("started", "exited")]
    assert site.engine.observe(folder).state == "exited"


def test_a_wakeup_that_nobody_hears_is_no_trouble(site):
    site.wakeup.close()
    site.wakeup_of_runners.close()
    assert site.end_of(site.shell("true")).exit_code == 0


@pytest.mark.parametrize(("argv", "cwd", "problem"), [
    (("no-such-program",), "/", "No such file"),
    (("/etc/passwd",), "/", "Permission denied"),
    (("true",), "/no/such/folder", "/no/such/folder"),
    (("true", "\0"), "/", "null byte"),
])
def test_a_worker_that_cannot_start_says_why_in_a_line(site, argv, cwd, problem):
    end = site.end_of(site.launch(site.spec(*argv, cwd=Path(cwd))))
    assert (end.exit_code, end.signal, end.cause) == (None, None, "not_started")
    assert problem in end.message
    assert "\n" not in end.message


def test_an_order_that_cannot_be_read_ends_the_worker_not_the_spawner(site):
    folder = site.home / "jobs" / "broken"
    folder.mkdir(parents=True)
    (folder / LAUNCH).write_text("{}")
    site.to_spawner.send(json.dumps({"launch": str(folder)}).encode())
    assert site.end_of(folder).cause == "not_started"
    assert site.end_of(site.shell("true")).exit_code == 0


def test_a_spawner_goes_on_after_bad_datagrams(site):
    for datagram in (b"", b"nonsense", b'{"launch": 1}', b'{"launch": "/nowhere"}'):
        site.to_spawner.send(datagram)
    assert site.end_of(site.shell("true")).exit_code == 0
    log = (site.home / "spawner.log").read_text()
    assert "nonsense" in log
    assert "/nowhere" in log


# What it costs, and that nothing stays

def test_a_runner_has_a_session_of_its_own_and_leaves_no_zombie(site):
    folder = site.shell("sleep 600")
    runner = psutil.Process(started(folder).runner.pid)
    assert os.getsid(runner.pid) == runner.pid != os.getsid(site.spawner.pid)
    assert runner.cwd() == "/"
    site.engine.stop(folder, 90)
    site.end_of(folder)
    eventually(lambda: psutil.Process(site.spawner.pid).children() == [])


def test_a_runner_sleeps_while_its_worker_runs(site):
    folder = site.shell("echo ready; sleep 600", timeout_seconds=600)
    line_in(site.home / "logs/w/std.log")
    runner = psutil.Process(started(folder).runner.pid)
    eventually(lambda: runner.status() == psutil.STATUS_SLEEPING)
    before, begun = runner.num_ctx_switches().voluntary, time.monotonic()
    site.end_of(site.shell("sleep 1", name="second"))
    looks = (time.monotonic() - begun) // 5      # it looks at its files every five seconds
    assert runner.num_ctx_switches().voluntary - before <= 2 + looks


def test_the_end_is_on_record_soon_after_it_happened(site):
    def median_delay(attempt: int) -> float:
        delays = []
        for number in range(5):
            folder = site.python("import time; print(time.time(), flush=True)", name=f"w{attempt}-{number}")
            site.end_of(folder)
            delays.append((folder / EXIT).stat().st_mtime - float(site.output_of(folder)))
        return sorted(delays)[2]

    # Most of it is Python on its way out. A runner that missed the end would see it within five seconds. On a busy
    # machine five workers may take longer, so there are more of them.
    assert any(median_delay(attempt) < 1.0 for attempt in range(4))


def test_living_workers_are_those_that_run(site):
    running = site.shell("sleep 600", name="deep/running")
    site.end_of(site.shell("true", name="ended"))
    started(running)
    assert living_workers(site.home / "jobs") == [running]


def test_a_spawner_ends_at_sigterm_and_workers_stay(executed):
    folder = executed.shell("sleep 600")
    started(folder)
    executed.spawner.terminate()
    assert executed.spawner.wait(90) == 0
    assert executed.engine.observe(folder).state == "running"


def test_a_spawner_ends_with_its_parent(site):
    """A shell is the parent of a second spawner, tells its number and goes when told."""
    end = site.at_spawner.fileno()
    log = site.home / "second.log"
    argv = ["/bin/sh", "-c", '"$@" & echo $!; read word', "sh",
            *SPAWNER, str(end), str(end), str(log), str(site.home / "jobs")]
    site.spawner.kill()
    site.spawner.wait()    # or it might still take what is meant for the second one
    parent = subprocess.Popen(argv, pass_fds=[end], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    pid = int(parent.stdout.readline())
    site.to_spawner.send(b"nonsense")
    line_in(log)    # it serves
    parent.communicate(b"go\n")
    eventually(lambda: not is_running(pid))
