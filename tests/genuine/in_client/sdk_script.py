"""Runs in the client's environment: a line [name, arguments] in, a line [what that method of the SDK returned] out."""

import json
import sys
from functools import reduce

from flow_sdk.client import FlowClient

client = FlowClient(sys.argv[1], int(sys.argv[2]), "v1", *sys.argv[3:])
for line in sys.stdin:
    name, arguments = json.loads(line)
    try:
        answer = reduce(getattr, name.split("."), client)(**arguments)
    except Exception as error:  # noqa: BLE001  # whatever it is, the test is to see it
        answer = {"raised": f"{type(error).__name__}: {error}"}
    print("\n" + json.dumps([answer]), flush=True)
