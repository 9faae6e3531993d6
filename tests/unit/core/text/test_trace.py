"""Which `traceparent` headers have a trace, as W3C Trace Context says."""

from __future__ import annotations

import pytest

from fate_flow.core.text.trace import span_id_in, trace_id_in, traceparent

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize("value", [
    f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00", f"cc-{TRACE}-{SPAN}-01", f"cc-{TRACE}-{SPAN}-01-what-comes-later",
])  # fmt: skip
def test_a_header_has_the_id_of_its_trace(value: str) -> None:
    assert trace_id_in(value) == TRACE


@pytest.mark.parametrize("value", [
    None, "", 7, TRACE, f"00-{TRACE}-{SPAN}", f"00-{TRACE.upper()}-{SPAN}-01", f"ff-{TRACE}-{SPAN}-01",
    f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE}-{SPAN}-01-more", f"00-{TRACE[1:]}-{SPAN}-01",
    f" 00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-01\n", f"cc-{TRACE}-{SPAN}-01-{'x' * 500}",
])  # fmt: skip
def test_what_cannot_be_read_is_no_trace(value: object) -> None:
    assert (trace_id_in(value), span_id_in(value)) == ("", "")


def test_what_is_written_is_read() -> None:
    assert (trace_id_in(traceparent(TRACE, SPAN)), span_id_in(traceparent(TRACE, SPAN))) == (TRACE, SPAN)
