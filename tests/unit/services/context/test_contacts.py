"""Contacts with other parties are noted once a minute, and at once when something about them is new."""

from __future__ import annotations

import pytest

from fate_flow.core.access.joined_party import FROM, TO, Contact
from fate_flow.core.model.errors import StorageFailed
from fate_flow.services.context.contacts import ContactNotes


def test_a_contact_is_noted_once_a_minute() -> None:
    now, stored = [1_000_000], list[Contact]()
    notes = ContactNotes(stored.append, lambda: now[0])
    for _ in range(3):
        notes.note(FROM, "10000", "TLSv1.3", "ab")
    assert stored == [Contact("10000", FROM, 1_000_000, "TLSv1.3", "ab")]
    notes.note(TO, "10000", "TLSv1.3", "ab")
    notes.note(FROM, "10001", "TLSv1.3", "ab")
    assert len(stored) == 3
    now[0] += 59_999
    notes.note(FROM, "10000", "TLSv1.3", "ab")
    assert len(stored) == 3
    now[0] += 1
    notes.note(FROM, "10000", "TLSv1.3", "ab")
    assert stored[3:] == [Contact("10000", FROM, 1_060_000, "TLSv1.3", "ab")]


def test_another_key_is_noted_at_once_and_so_is_a_contact_after_the_clock_was_set_back() -> None:
    now, stored = [1_000_000], list[Contact]()
    notes = ContactNotes(stored.append, lambda: now[0])
    notes.note(TO, "10000", "TLSv1.3", "ab")
    notes.note(TO, "10000", "TLSv1.3", "cd")
    now[0] -= 1
    notes.note(TO, "10000", "TLSv1.3", "cd")
    assert [one.key_id for one in stored] == ["ab", "cd", "cd"]


def test_a_note_that_cannot_be_stored_is_in_nobodys_way(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(_: Contact) -> None:
        raise StorageFailed("the database is away")

    ContactNotes(refuse, lambda: 1).note(FROM, "10000", "TLSv1.3", "ab")
    assert "the contact with party 10000 was not noted: the database is away" in caplog.text
