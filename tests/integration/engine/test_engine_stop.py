"""The local engine and the end of its workers: by themselves, by a stop, by a limit."""

from __future__ import annotations

import errno
import os
import signal

import psutil
import pytest

from fate_flow.engines.local import worker
from fate_flow.engines.local.worker import EXIT, RUNNER, STOP, Exit, write_atomically
from tests.kit.servers.engine_site import POLITE, is_running, line_in, started
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(300)


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
    """It has some seconds to come to its trap; on a busy machine it may need more."""
    for seconds in (3.0, 15.0, 60.0):
        script = "trap '' TERM; echo ready; while :; do sleep 600; done"
        folder = site.shell(script, name=f"w{seconds:g}", timeout_seconds=seconds, grace_seconds=0.1)
        end = site.end_of(folder)
        if site.output_of(folder) == "ready\n":
            break
    assert end == Exit(None, signal.SIGKILL, "timeout")


def test_a_worker_that_never_began_is_stopped_at_once_and_never_begins(site):
    site.spawner.send_signal(signal.SIGSTOP)
    folder = site.shell("echo ran")
    assert site.engine.observe(folder).state == "created"
    assert [site.engine.stop(folder, 90) for _ in range(2)] == [True, False]      # nobody else would tell of it
    assert site.engine.observe(folder).exit == Exit(None, None, "stopped")
    site.spawner.send_signal(signal.SIGCONT)
    site.end_of(site.shell("true", name="after"))
    assert not (site.home / "logs" / "w").exists()


def test_a_stop_whose_end_finds_no_space_is_repeated_with_success(site, monkeypatch):
    folder = site.home / "jobs" / "w"

    def full(path, text, **how):
        if path.name == EXIT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write_atomically(path, text, **how)

    with monkeypatch.context() as patch:
        patch.setattr(worker, "write_atomically", full)
        with pytest.raises(OSError, match="No space"):
            site.engine.stop(folder, 20)
    assert site.engine.stop(folder, 20)
    assert site.engine.observe(folder).exit == Exit(None, None, "stopped")


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
