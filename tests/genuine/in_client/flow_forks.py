"""Runs in the client's environment: a line with the words of a `flow` command in, [exit code, stdout, stderr] out."""

from flow_client.flow import flow_cli
from forking import serve

serve(lambda words: flow_cli(words, prog_name="flow"))
