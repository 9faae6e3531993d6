"""Runs in the client's environment: a line with the argv of a `flow` command in, [exit code, stdout, stderr] out."""

from flow_client.flow import flow_cli
from forking import serve

serve(lambda argv: flow_cli(argv, prog_name="flow"))
