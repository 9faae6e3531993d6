"""Runs in the client's environment: a line with the words of a `flow` command in, [exit code, stdout, stderr] out.

Each command has a process and a current folder of its own. The process is forked when the client is imported already:
that import takes longer than all that a command does.
"""

import gc
import json
import os
import sys
import tempfile

from flow_client.flow import flow_cli


def run(text):
    folder = tempfile.mkdtemp(dir=".")      # what a command unpacks stays there
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.chdir(folder)
            with open(os.devnull) as nothing:
                os.dup2(nothing.fileno(), 0)       # the next lines are for other commands
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            command(text)
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return [os.waitstatus_to_exitcode(status), *texts]


def command(text):
    """Ends the process as `flow` would, without taking down what was imported: that would copy all of its memory."""
    try:
        flow_cli(text, prog_name="flow")
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code)


gc.freeze()     # or else a collection in a child would copy the memory of all objects
for line in sys.stdin:
    answer = run(json.loads(line))
    print("\n" + json.dumps(answer), flush=True)
