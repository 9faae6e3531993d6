"""The tests of limits on a kernel whose groups are of version 2 alone, as those of most machines are today.

The machine of a developer or of CI may have version 1, on which the same tests run there.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.kit.engines.machine import run_in_machine

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(900)]

CHECKOUT = Path(__file__).parents[2]
TOP = "/sys/fs/cgroup"
TESTS = shlex.join([
    sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no",
    "tests/integration/engine/test_engine_groups.py",
])  # fmt: skip
READS = "+dac_read_search"        # Python, or the checkout, may be below a home that others do not read
AS_SERVICE = shlex.quote(
    f"echo $$ > {TOP}/service/cgroup.procs; exec setpriv --reuid nobody --regid nogroup --clear-groups"
    f" --inh-caps {READS} --ambient-caps {READS} {TESTS}"
)
SCRIPT = f"""
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/run TMPDIR=/run/t PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH={shlex.quote(os.pathsep.join(one for one in (str(CHECKOUT), os.environ.get("PYTHONPATH")) if one))}
chmod 755 /run; mkdir -m 1777 /run/t; cd {shlex.quote(str(CHECKOUT))}
{TESTS} -k "more_than_its_memory or begins_while" && echo "root: they pass"
rm -r /run/t/*
echo "+memory +pids +cpu" > {TOP}/cgroup.subtree_control
mkdir {TOP}/service
chown nobody {TOP}/service {TOP}/service/cgroup.procs {TOP}/service/cgroup.subtree_control
sh -c {AS_SERVICE} && echo "service: they pass"
"""
"""As root; then as a service of another user with `Delegate=yes` in its unit."""


def test_limits_hold_by_groups_of_version_2(tmp_path: Path) -> None:
    programs = os.environ.get("FATE_FLOW_TEST_MACHINE")
    if not programs:
        pytest.skip("FATE_FLOW_TEST_MACHINE names no programs (bin/test --heavy gets them)")
    said = run_in_machine(json.loads(programs), tmp_path, SCRIPT)
    assert re.findall(r"^(\w+): they pass$", said, re.MULTILINE) == ["root", "service"], said[-8000:]
    assert "skipped" not in said, said[-8000:]
