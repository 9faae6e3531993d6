"""Runs in the environment of FATE 2's client: a line with the argv of a `flow` command in, [exit code, stdout, stderr]
out. The argv `commands` prints the names of all commands as JSON instead."""

import json

from fate_client.flow_cli.flow import flow_cli
from forking import serve


def run(argv):
    if argv == ["commands"]:
        print(json.dumps({"commands": sorted(names(flow_cli, "flow"))}))
    else:
        flow_cli(argv, prog_name="flow")


def names(command, path):
    for name, one in getattr(command, "commands", {}).items():
        yield from names(one, f"{path} {name}")
    if not hasattr(command, "commands"):
        yield path


serve(run)
