"""Whether this machine lets the tests limit processes by cgroups; if not, `bin/test` says so above its closing line."""

from __future__ import annotations

import uuid

import pytest

from fate_flow.engines.local.group_search import AUTO, find_groups

FOUND = find_groups(AUTO, f"fate_flow-test-{uuid.uuid4().hex[:8]}", 0)
needs_groups = pytest.mark.skipif(FOUND.groups is None, reason=FOUND.why_not)
