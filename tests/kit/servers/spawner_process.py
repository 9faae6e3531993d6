"""A spawner with a component for tests, and a process that forks such spawners.

    spawner_process.py WAKEUP REPLY LOG JOBS   a spawner: two descriptors of sockets, a log file, the folder of workers
    spawner_process.py CONTROL SPACE           the process behind `engine_site.py`, started by `warm.py`

It is a script and imports nothing of the tests. The second form has imported what a spawner needs, and no more: what a
spawner forks copies that. It keeps a single thread, and ends when the other end of its socket is closed.
"""

import gc
import json
import logging
import os
import signal
import socket
import sys
import traceback
import types
from pathlib import Path

from fate_flow.components import preload
from fate_flow.engines.local import proc
from fate_flow.engines.local.groups import Groups
from fate_flow.engines.local.spawner import Spawner
from fate_flow.engines.local.worker import RUN

LONGEST_REQUEST = 200_000


def component(argv):
    """Stands for the components of this package."""
    logging.getLogger("spawner").error("through an inherited handler")
    verb, *rest = argv
    if verb == "report":
        kept = {int(n): os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
                if os.path.exists(f"/proc/self/fd/{n}")}
        json.dump({"env": os.environ.get("FLAVOUR"), "cwd": os.getcwd(), "fds": kept, "gc": gc.isenabled(),
                   "blocked": [int(s) for s in signal.pthread_sigmask(signal.SIG_BLOCK, ())],
                   "term": signal.getsignal(signal.SIGTERM) is signal.SIG_DFL}, sys.stdout)
    elif verb == "return":
        return int(rest[0])
    elif verb == "exit":
        sys.exit(rest[0])
    elif verb == "raise":
        raise OSError("the component's own error")
    elif verb == "print":
        sys.stdout.write("x" * int(rest[0]))
        sys.stderr.write("e" * int(rest[0]))
    elif verb == "sleep":
        signal.pause()
    return None


def with_own_component():
    """What a worker of this package's components runs, before anything has imported it."""
    module = types.ModuleType("fate_flow.components.__main__")
    module.main = component
    sys.modules[module.__name__] = module


def be_spawner(wakeup, reply, log, jobs):
    """Serves on these sockets."""
    logging.basicConfig(filename=log)
    Spawner(wakeup, reply, jobs_dir=Path(jobs), groups=Groups.read(Path(jobs).parent / RUN)).serve()


def fork_spawners(control):
    """For each request on this socket, a log file, a folder, an environment, and descriptors of two sockets, of stdout,
    of stderr and of a pipe: it says its number and then its exit code there."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)       # nobody waits for the forks
    preload()
    proc.settle_memory()
    while True:
        request, streams, _, _ = socket.recv_fds(control, LONGEST_REQUEST, 5)
        if not request:
            return
        if not os.fork():
            control.close()
            be_forked_spawner(*json.loads(request), *streams)
        for stream in streams:
            os.close(stream)


def be_forked_spawner(log, jobs, environment, folder, wakeup, reply, out, err, said):
    """Ends this process: the frames above are those of the process that forked."""
    code = 1
    try:
        os.write(said, b"%d\n" % os.getpid())
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, stream in ((1, out), (2, err)):
            os.dup2(stream, number)
            os.close(stream)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        be_spawner(socket.socket(fileno=wakeup), socket.socket(fileno=reply), log, jobs)
        code = 0
    except BaseException:  # noqa: BLE001  # the frames above must not see it
        traceback.print_exc()
    finally:
        os.write(said, b"%d\n" % code)
        os._exit(code)


if __name__ == "__main__":
    with_own_component()
    if len(sys.argv) == 3:
        fork_spawners(socket.socket(fileno=int(sys.argv[1])))
    else:
        ends = [socket.socket(fileno=int(number)) for number in sys.argv[1:3]]
        be_spawner(*ends, *sys.argv[3:])
