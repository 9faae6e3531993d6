"""What the columns of a document say about rows of an older release."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fate_flow.core.model.document import FATE_V1, Disclosure
from fate_flow.store.database.document_columns import document_columns, kept_document
from fate_flow.store.values import Document

SALT = "0" * 64


@pytest.mark.parametrize(("text", "disclosure"), [
    (None, None),
    (f'{{"disclosure":{{"salts":{{"/a":"{SALT}"}},"commitments":{{}},"whole":[]}}}}', Disclosure({"/a": SALT})),
])  # fmt: skip
def test_a_row_of_an_older_release_is_not_compared(text: str | None, disclosure: Disclosure | None) -> None:
    kept = kept_document(FATE_V1, text)
    assert (kept.own, kept.disclosure, kept.is_compared) == (None, disclosure, False)


def test_a_row_of_this_release_is_compared_and_one_that_was_not_stays_so() -> None:
    document = Document({}, {}, {})
    assert kept_document(FATE_V1, document_columns(document)["f_document"]).is_compared
    assert document_columns(replace(document, is_compared=False))["f_document"] is None
