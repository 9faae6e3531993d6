"""The local engine with a real spawner, real runners and real workers."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fate_flow.engine.local import living_workers
from fate_flow.engine.worker import (
    CLAIMED,
    EXIT,
    LAUNCH,
    RUNNER,
    STOP,
    Exit,
    ProcessId,
    Started,
    WorkerSpec,
    claim,
)
from tests.integration.engine_site import SPAWNER, Site, eventually, is_running, line_in, started

pytestmark = pytest.mark.timeout(900)

# Python and not a shell: one that forks loses a SIGTERM now and then between the fork and the exec.
POLITE = """
import os, signal, subprocess, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
print("ready", flush=True)
signal.sigwait({signal.SIGTERM})
while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]):
    time.sleep(0.005)
print("done", flush=True)
sys.exit(5)
"""


@pytest.fixture
def site(tmp_path) -> Iterator[Site]:
    site = Site(tmp_path)
    site.start_spawner()
    yield site
    site.close()


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
        spec = WorkerSpec(name, site.home / "jobs" / name, "command", ("echo", text), site.home, **both)
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


def test_a_builtin_runs_without_exec_as_in_a_fresh_python(site):
    folder = site.builtin("report", env={"FLAVOUR": "mint"}, cwd=Path("/usr"))
    assert site.end_of(folder) == Exit(0, None, "exited")
    seen = json.loads(site.output_of(folder))
    assert (seen["env"], seen["cwd"], seen["gc"]) == ("mint", "/usr", True)
    assert (seen["blocked"], seen["term"]) == ([], True)
    logs = [str(site.home / "logs" / "w" / name) for name in ("std.log", "err.log")]
    assert [seen["fds"][number] for number in ("0", "1", "2")] == [os.devnull, *logs]
    assert {target for number, target in seen["fds"].items() if int(number) > 2} <= {os.devnull}


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


def test_the_bell_rings_at_start_and_end(site):
    folder = site.shell("true")
    site.bell.settimeout(90)
    rings = [json.loads(site.bell.recv(1000)) for _ in range(2)]
    assert rings == [{"worker": str(folder), "event": event} for event in ("started", "exited")]
    assert site.engine.observe(folder).state == "exited"


def test_a_bell_that_nobody_hears_is_no_trouble(site):
    site.bell.close()
    site.bell_of_runners.close()
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


# How a worker ends

@pytest.mark.parametrize(("script", "end"), [
    ("exit 0", Exit(0, None, "exited")),
    ("exit 7", Exit(7, None, "exited")),
    ("kill -KILL $$", Exit(None, signal.SIGKILL, "exited")),
    ("kill -SEGV $$", Exit(None, signal.SIGSEGV, "exited")),
    ("exit 127", Exit(127, None, "exited")),
])
def test_what_a_worker_ended_with_is_on_record(site, script, end):
    assert site.end_of(site.shell(script)) == end


@pytest.mark.parametrize("launch", [
    "sleep 600 & echo $!",
    "(sleep 600 & echo $!)",                    # an orphan
    "setsid sleep 600 & sleep 0; echo $!",      # left the group
    "trap '' TERM; sleep 600 & echo $!",
])
def test_nothing_a_worker_leaves_behind_lives_on(site, launch):
    folder = site.shell(launch)
    assert site.end_of(folder).exit_code == 0
    assert not is_running(int(site.output_of(folder)))


def test_the_result_file_is_part_of_what_is_observed(site):
    folder = site.shell("echo '{\"status\": {\"code\": 0}}' > jobs/w/result.json")
    site.end_of(folder)
    assert site.engine.observe(folder).result == {"status": {"code": 0}}


def test_a_stopped_worker_gets_sigterm(site):
    folder = site.python(POLITE)
    line_in(site.home / "logs/w/std.log")
    assert site.engine.observe(folder).state == "running"
    assert site.engine.stop(folder, 90) is False                                  # its runner will tell
    assert site.end_of(folder) == Exit(5, None, "stopped")


def test_the_rest_of_a_stopped_group_has_the_same_grace(site):
    leader = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"
    go = site.home / "go"
    folder = site.python(leader, POLITE, str(go))
    line_in(site.home / "logs/w/std.log")
    site.engine.stop(folder, 90)
    eventually(lambda: not started(folder).worker.is_alive())
    go.touch()
    assert site.end_of(folder) == Exit(None, signal.SIGTERM, "stopped")
    assert site.output_of(folder) == "ready\ndone\n"


def test_sigkill_follows_when_the_grace_is_over(site):
    folder = site.shell("trap '' TERM; echo ready; while :; do sleep 600; done")
    line_in(site.home / "logs/w/std.log")
    site.engine.stop(folder, 0.2)
    assert site.end_of(folder) == Exit(None, signal.SIGKILL, "stopped")


def test_a_second_stop_can_only_shorten_the_grace(site):
    folder = site.shell("trap '' TERM; echo ready; while :; do sleep 600; done")
    line_in(site.home / "logs/w/std.log")
    site.engine.stop(folder, 600)
    site.engine.stop(folder, 0)
    site.engine.stop(folder, 600)
    assert site.end_of(folder) == Exit(None, signal.SIGKILL, "stopped")


def test_a_suspended_worker_is_stopped_too(site):
    folder = site.shell("kill -STOP $$")
    worker = started(folder).worker
    eventually(lambda: psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED)
    site.engine.stop(folder, 0.1)
    assert site.end_of(folder) == Exit(None, signal.SIGKILL, "stopped")


def test_a_stop_file_alone_is_obeyed(site):
    """As when the server died between the file and the signal: the runner looks every five seconds."""
    folder = site.shell("sleep 600")
    started(folder)
    (folder / STOP).write_text('{"grace_seconds": 20}')
    assert site.end_of(folder).cause == "stopped"


def test_a_builtin_is_stopped_like_any_other(site):
    folder = site.builtin("sleep")
    started(folder)
    site.engine.stop(folder, 90)
    assert site.end_of(folder) == Exit(None, signal.SIGTERM, "stopped")


def test_a_worker_runs_no_longer_than_it_may(site):
    folder = site.shell("sleep 600", timeout_seconds=0.1)
    assert site.end_of(folder) == Exit(None, signal.SIGTERM, "timeout")


def test_a_late_worker_that_ignores_sigterm_is_killed(site):
    """It has three seconds to come to its trap."""
    folder = site.shell("trap '' TERM; while :; do sleep 600; done", timeout_seconds=3.0, grace_seconds=0.1)
    assert site.end_of(folder) == Exit(None, signal.SIGKILL, "timeout")


def test_a_worker_that_never_began_is_stopped_at_once_and_never_begins(site):
    site.spawner.send_signal(signal.SIGSTOP)
    folder = site.shell("echo ran")
    assert site.engine.observe(folder).state == "created"
    assert [site.engine.stop(folder, 90) for _ in range(2)] == [True, False]      # nobody else would tell of it
    assert site.engine.observe(folder).exit == Exit(None, None, "stopped")
    site.spawner.send_signal(signal.SIGCONT)
    site.end_of(site.shell("true", name="after"))
    assert not (site.home / "logs" / "w").exists()


def test_a_stop_that_overtakes_the_launch_wins(site):
    spec = site.spec("echo", "ran")
    site.engine.stop(spec.folder, 20)
    site.launch(spec)
    assert site.end_of(spec.folder) == Exit(None, None, "stopped")
    assert not spec.stdout.exists()


def test_a_runner_that_finds_a_stop_file_starts_nothing(site):
    spec = site.spec("echo", "ran")
    spec.folder.mkdir(parents=True)
    (spec.folder / STOP).write_text('{"grace_seconds": 20}')
    assert site.end_of(site.launch(spec)) == Exit(None, None, "stopped")
    assert not (spec.folder / RUNNER).exists()


def test_a_stop_at_any_moment_of_the_start_is_heard(site):
    """The stop comes at once after the order; whoever is first, the worker ends."""
    for number in range(20):
        folder = site.shell("sleep 600", name=f"w{number}")
        site.engine.stop(folder, 90)
        assert site.end_of(folder).cause == "stopped"


# What survives what

def test_a_worker_outlives_its_spawner_and_its_end_is_recorded(site):
    go = site.home / "go"
    os.mkfifo(go)
    folder = site.shell(f"read word < {shlex.quote(str(go))}; exit 4")
    started(folder)
    site.spawner.kill()
    site.spawner.wait()
    assert site.engine.observe(folder).state == "running"
    go.write_text("now\n")
    assert site.end_of(folder) == Exit(4, None, "exited")


def test_a_new_spawner_serves_what_the_old_one_did_not(site):
    site.spawner.kill()
    site.spawner.wait()
    folder = site.shell("true")
    assert site.engine.observe(folder).state == "created"
    site.start_spawner()
    assert site.end_of(folder).exit_code == 0


def test_orders_beyond_what_the_socket_holds_are_reported_as_not_delivered(site):
    site.to_spawner.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    site.spawner.send_signal(signal.SIGSTOP)
    specs = [site.spec("true", name=f"w{number}") for number in range(20)]
    delivered = [site.engine.launch(spec) for spec in specs]
    assert delivered[0]
    assert not delivered[-1]
    site.spawner.send_signal(signal.SIGCONT)
    for spec in specs:
        eventually(lambda spec=spec: site.engine.launch(spec))
        assert site.end_of(spec.folder).exit_code == 0


def test_a_worker_whose_runner_was_killed_is_running_until_it_ends_and_then_lost(site):
    folder = site.shell("trap '' TERM; echo ready; while :; do sleep 600; done")
    line_in(site.home / "logs/w/std.log")
    assert started(folder).runner.send(signal.SIGKILL)
    eventually(lambda: not started(folder).runner.is_alive())
    assert site.engine.observe(folder).state == "running"
    started(folder).worker.send(signal.SIGKILL)
    site.engine.stop(folder, 0)    # the `sleep` that the shell left
    eventually(lambda: site.engine.observe(folder).state == "lost")


def test_without_a_runner_the_engine_itself_stops_the_group(site):
    script = ("import signal, subprocess; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
              "child = subprocess.Popen(['sleep', '600']);"
              "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}); print(child.pid, flush=True);"
              "signal.signal(signal.SIGTERM, signal.SIG_DFL);"
              "signal.sigwait({signal.SIGTERM}); print('heard', flush=True); child.wait()")
    folder = site.python(script)
    child = int(line_in(site.home / "logs/w/std.log"))
    started(folder).runner.send(signal.SIGKILL)
    eventually(lambda: not started(folder).runner.is_alive())
    site.engine.stop(folder, 600)
    eventually(lambda: "heard" in site.output_of(folder))
    assert site.engine.observe(folder).state == "running"
    site.engine.stop(folder, 0)
    eventually(lambda: site.engine.observe(folder).state == "lost")
    assert not is_running(child)


def test_a_claim_whose_claimer_died_is_a_lost_worker(site):
    folder = site.spec("true").folder
    folder.mkdir(parents=True)
    claimer = os.fork()
    if claimer == 0:
        claim(folder)
        os._exit(0)
    os.waitpid(claimer, 0)
    assert site.engine.observe(folder).state == "lost"


def test_a_number_in_use_again_is_not_the_worker(site):
    """Runner and worker files that name this very test process, with another start time."""
    folder = site.spec("true").folder
    folder.mkdir(parents=True)
    me = ProcessId.of(os.getpid())
    stranger = ProcessId(me.pid, me.started - 1)
    (folder / CLAIMED).write_text("{}")
    (folder / RUNNER).write_text(Started(stranger, stranger).to_json())
    site.engine.stop(folder, 0)    # would kill the tests
    assert site.engine.observe(folder).state == "lost"


def test_a_session_whose_number_is_in_use_again_is_not_the_workers(site):
    script = "sleep 600 & echo $!; wait"
    with subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True, stdout=subprocess.PIPE) as leader:
        child = int(leader.stdout.readline())
        now = ProcessId.of(leader.pid)
        before = ProcessId(now.pid, now.started - 1)
        assert [stat.pid for stat in Started(now, now).survivors()] == [child]
        assert Started(before, before).survivors() == []
        os.killpg(leader.pid, signal.SIGKILL)


def test_a_worker_ends_when_the_server_stops_renewing_its_lease(site):
    lease = site.home / "lease"
    lease.write_text("1")
    folder = site.shell("sleep 600", lease_file=lease, lease_seconds=0.4)
    assert site.end_of(folder) == Exit(None, signal.SIGTERM, "server_lost")


def test_a_renewed_lease_lets_a_worker_run_on(site):
    lease = site.home / "lease"
    lease.write_text("0")
    folder = site.shell("sleep 600", lease_file=lease, lease_seconds=4.0)
    started(folder)
    renewed_until = time.monotonic() + 6.0      # longer than a lease; a busy machine delays a renewal by less than one

    def renew() -> bool:
        lease.write_text(str(time.monotonic()))
        assert site.engine.observe(folder).state == "running"
        return time.monotonic() >= renewed_until
    eventually(renew)
    lease.unlink()    # an unreadable lease is one that is not renewed
    assert site.end_of(folder).cause == "server_lost"


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
    delays = []
    for number in range(5):
        folder = site.python("import time; print(time.time(), flush=True)", name=f"w{number}")
        site.end_of(folder)
        delays.append((folder / EXIT).stat().st_mtime - float(site.output_of(folder)))
    # Most of it is Python on its way out. A runner that missed the end would see it within five seconds.
    assert sorted(delays)[2] < 1.0


def test_living_workers_are_those_that_run(site):
    running = site.shell("sleep 600", name="deep/running")
    site.end_of(site.shell("true", name="ended"))
    started(running)
    assert living_workers(site.home / "jobs") == [running]


def test_a_spawner_ends_at_sigterm_and_workers_stay(site):
    folder = site.shell("sleep 600")
    started(folder)
    site.spawner.terminate()
    assert site.spawner.wait(90) == 0
    assert site.engine.observe(folder).state == "running"


def test_a_spawner_ends_with_its_parent(site):
    """A shell is the parent of a second spawner, tells its number and goes when told."""
    end = site.at_spawner.fileno()
    log = site.home / "second.log"
    argv = ["/bin/sh", "-c", '"$@" & echo $!; read word', "sh",
            sys.executable, "-c", SPAWNER, str(end), str(end), str(log), str(site.home / "jobs")]
    site.spawner.kill()
    site.spawner.wait()    # or it might still take what is meant for the second one
    parent = subprocess.Popen(argv, pass_fds=[end], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    pid = int(parent.stdout.readline())
    site.to_spawner.send(b"nonsense")
    line_in(log)    # it serves
    parent.communicate(b"go\n")
    eventually(lambda: not is_running(pid))
