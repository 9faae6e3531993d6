"""Whether two parties run the same document, by the names that their messages have."""

from __future__ import annotations

import pytest

from fate_flow.core.access.bound_document import check_document_name, document_name, why_other_document
from fate_flow.core.model.errors import BadRequest

ONE, TWO = "1" * 64, "2" * 64


@pytest.mark.parametrize(("sent", "here"), [
    ("", ""), ("", f"native:{ONE}"), (f"native:{ONE}", ""), (f"native:{ONE}", f"native:{ONE}"),
    (f"later:{ONE}", f"native:{TWO}"), (f"fate_v1:{ONE}", f"later:{TWO}"),
])  # fmt: skip
def test_they_can_run_the_same(sent: str, here: str) -> None:
    assert why_other_document("guest 9999", sent, "host 10000", here) == ""


@pytest.mark.parametrize(("sent", "here"), [
    (f"native:{ONE}", f"native:{TWO}"), (f"fate_v1:{ONE}", f"fate_v1:{TWO}"), (f"later:{ONE}", f"later:{TWO}"),
    (f"native:{ONE}", f"fate_v1:{TWO}"), (f"fate_v1:{ONE}", f"native:{TWO}"),
])  # fmt: skip
def test_they_do_not_run_the_same(sent: str, here: str) -> None:
    assert why_other_document("guest 9999", sent, "host 10000", here) == (
        "the coordinator gave the two parties different documents: guest 9999 runs 111111111111, "
        "host 10000 runs 222222222222"
    )


def test_the_name_of_a_document() -> None:
    assert check_document_name("", "document") == ""
    assert check_document_name(document_name("fate_v1", ONE), "document") == f"fate_v1:{ONE}"
    for wrong in (ONE, f":{ONE}", f"native:{ONE[1:]}", f"native:{ONE}1", f"Native:{ONE}", f"native:{'A' * 64}", "a b"):
        with pytest.raises(BadRequest, match=r"document: .* is not a format, a colon and 64 lower case hex digits"):
            check_document_name(wrong, "document")
