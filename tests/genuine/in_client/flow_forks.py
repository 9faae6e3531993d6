"""Runs in the client's environment: a line with the words of a `flow` command in, [exit code, stdout, stderr] out.

Each command has a process of its own, forked when the client is imported already: that import takes longer than all
that a command does.
"""

import json
import os
import sys
import tempfile

from flow_client.flow import flow_cli


def run(text):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            flow_cli(text, prog_name="flow")       # ends the process
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
    return [os.waitstatus_to_exitcode(status), *texts]


for line in sys.stdin:
    answer = run(json.loads(line))
    print("\n" + json.dumps(answer), flush=True)
