"""Runs in the client's environment: for each line with argv, a process that does what they say.

Each has a current folder of its own. It is forked when the client is imported already: that import takes longer than
all that a command does. The answer to a line is another, [exit code, stdout, stderr].
"""

import gc
import json
import os
import sys
import tempfile
import traceback


def serve(command):
    """Calls command(argv) in a process of its own for each line."""
    gc.freeze()     # or else a collection in a child would copy the memory of all objects
    for line in sys.stdin:
        answer = _run(command, json.loads(line))
        print("\n" + json.dumps(answer), flush=True)


def _run(command, argv):
    folder = tempfile.mkdtemp(dir=".")      # what a command unpacks stays there
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.chdir(folder)
            with open(os.devnull) as nothing:
                os.dup2(nothing.fileno(), 0)       # the next lines are for other commands
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            _end_with(command, argv)
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return [os.waitstatus_to_exitcode(status), *texts]


def _end_with(command, argv):
    """Ends the process as a Python would that runs this, without taking down what was imported: that would copy all of
    its memory."""
    code = 1
    try:
        command(argv)
        code = 0
    except SystemExit as end:
        code = end.code or 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:  # noqa: BLE001  # the frames above must not see it
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
