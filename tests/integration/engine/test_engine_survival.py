"""What the workers of the local engine outlive, and what ends with whom."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time

import pytest

from fate_flow.engines.local.child import NOT_STARTED
from fate_flow.engines.local.worker import CLAIMED, RUNNER, Exit, ProcessId, Started, claim
from tests.kit.servers.engine_site import is_running, line_in, started
from tests.kit.waiting import eventually

pytestmark = pytest.mark.timeout(300)


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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_for_the_group_of_the_server_does_not_end_a_worker_that_is_being_forked(site, number):
    code = '''
import os, socket, sys
from fate_flow.engines.local.spawner import Spawner
leave = os.setsid
def leave_late():
    os.kill(os.getpid(), int(sys.argv[1]))      # as Ctrl-C in this moment
    leave()
os.setsid = leave_late
Spawner(*(socket.socket(fileno=int(end)) for end in sys.argv[2:])).serve()
'''
    site.spawner.kill()
    site.spawner.wait()
    ends = (site.at_spawner.fileno(), site.wakeup_of_runners.fileno())
    site.spawner = subprocess.Popen([sys.executable, "-c", code, *map(str, (int(number), *ends))], pass_fds=ends)
    assert site.end_of(site.shell("exit 4")) == Exit(4, None, "exited")


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
    ended = site.end_of(folder)
    begun, not_begun = (Exit(None, signal.SIGTERM, "server_lost"), Exit(NOT_STARTED, None, "server_lost"))
    assert ended in (begun, not_begun)       # on a busy machine, its program may not have begun by then


def test_a_renewed_lease_lets_a_worker_run_on(site):
    lease = site.home / "lease"
    lease.write_text("0")
    folder = site.shell("sleep 600", lease_file=lease, lease_seconds=10.0)
    started(folder)
    renewed_until = time.monotonic() + 12.0     # longer than a lease; a busy machine delays a renewal by less than one

    def renew() -> bool:
        lease.write_text(str(time.monotonic()))
        assert site.engine.observe(folder).state == "running"
        return time.monotonic() >= renewed_until
    eventually(renew)
    lease.unlink()    # an unreadable lease is one that is not renewed
    assert site.end_of(folder).cause == "server_lost"
