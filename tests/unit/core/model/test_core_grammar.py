"""What may reach a path, a log line, SQL or argv, and what may not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.core.model import grammar
from fate_flow.core.model.errors import BadRequest
from fate_flow.core.wire.v1.retcodes import retcode_of

JOB_ID = "20260102030405123456789"
HOSTILE = (
    "", " ", "..", "../x", "a/b", "/etc/passwd", "a\\b", "x\n", "\nx", "a\x00b", "x;ls", "$(x)", "`x`", "a b", "-x",
    "--x", ".x", "x'--", '"', "%2e", "\ufeffx", "\x1b[31m", "é", "\ud800",
    None, True, False, 1.0, [], {}, b"x", object(),
)
NAMED = (
    grammar.check_job_id, grammar.check_task_id, grammar.check_component_name, grammar.check_output_name,
    grammar.check_role, grammar.check_party_id,
    grammar.check_worker_id, grammar.check_incarnation, grammar.check_version,
)


def table_piece(value):
    return grammar.check_table_piece(value, "table_name")


@pytest.mark.parametrize("check", NAMED)
@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_nothing_hostile_passes_any_check(check, value):
    with pytest.raises(BadRequest) as caught:
        check(value)
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(("check", "value"), [
    (grammar.check_job_id, JOB_ID),
    (grammar.check_job_id, "2" * 14),
    (grammar.check_job_id, "2" * 25),
    (grammar.check_task_id, f"{JOB_ID}_reader_0"),
    (grammar.check_component_name, "a"),
    (grammar.check_component_name, "Reader-0_x"),
    (grammar.check_component_name, "a" * 30),
    (grammar.check_output_name, "train_data"),
    (grammar.check_role, "guest"),
    (grammar.check_role, "host"),
    (grammar.check_role, "arbiter"),
    (grammar.check_role, "local"),
    (grammar.check_party_id, "9999"),
    (grammar.check_party_id, "0"),
    (grammar.check_party_id, "1" * 10),
    (table_piece, "site_a.v2-x"),
    (table_piece, "a" * 200),
    (table_piece, "a..b"),
    (table_piece, "a b&c"),
    (table_piece, "../z"),
    (table_piece, "ünï#1"),
    (table_piece, "ü" * 33),
    (table_piece, "demo"),
    (grammar.check_worker_id, "0123456789abcdef" * 2),
    (grammar.check_incarnation, "deadbeef"),
])
def test_what_is_right_comes_back_as_it_was(check, value):
    assert check(value) == value


@pytest.mark.parametrize(("check", "value"), [
    (grammar.check_job_id, "2" * 13),
    (grammar.check_job_id, "2" * 26),
    (grammar.check_job_id, "٢" * 21),
    (grammar.check_job_id, int(JOB_ID)),
    (grammar.check_task_id, JOB_ID),
    (grammar.check_task_id, f"{JOB_ID}_"),
    (grammar.check_task_id, f"{JOB_ID}_{'a' * 31}"),
    (grammar.check_component_name, "a" * 31),
    (grammar.check_component_name, "a.b"),
    (grammar.check_role, "Guest"),
    (grammar.check_role, "guest\n"),
    (grammar.check_party_id, "1" * 11),
    (grammar.check_party_id, 10**10),
    (grammar.check_party_id, -1),
    (grammar.check_party_id, "+1"),
    (grammar.check_party_id, "1_0"),
    (grammar.check_party_id, "²"),
    (table_piece, "a" * 201),
    (table_piece, "ü" * 34),
    (table_piece, ".."),
    (table_piece, "a\nb"),
    (table_piece, "a\x1b[31m"),
    (table_piece, "\ud800"),
    (grammar.check_worker_id, "DEADBEEF"),
    (grammar.check_worker_id, "abc"),
    (grammar.check_incarnation, "a" * 65),
    (grammar.check_incarnation, "deadbeeg"),
    (grammar.check_version, -1),
    (grammar.check_version, 2**31),
    (grammar.check_version, "1.0"),
    (grammar.check_version, 10**100),
])
def test_what_is_nearly_right_is_refused(check, value):
    with pytest.raises(BadRequest):
        check(value)


@pytest.mark.parametrize(("sent", "kept"), [(9999, "9999"), ("09999", "9999"), ("0000000000", "0"), (0, "0")])
def test_party_ids_become_plain_text(sent, kept):
    assert grammar.check_party_id(sent) == kept


@pytest.mark.parametrize(("sent", "kept"), [(0, 0), (3, 3), ("3", 3), ("003", 3), (2**31 - 1, 2**31 - 1)])
def test_versions_become_numbers(sent, kept):
    assert grammar.check_version(sent) == kept


@pytest.mark.parametrize(("check", "value", "message"), [
    (grammar.check_role, "foo", "role: 'foo' is not one of guest, host, arbiter, local"),
    (grammar.check_party_id, "x", "party_id: 'x' is not a party id (1 to 10 digits)"),
    (grammar.check_party_id, None, "party_id: null is not a party id (1 to 10 digits)"),
    (grammar.check_party_id, -7, "party_id: -7 is not a party id (1 to 10 digits)"),
    (grammar.check_job_id, 42, "job_id: 42 is not a job id (14 to 25 digits)"),
    (grammar.check_version, "x", "task_version: 'x' is not a whole number from 0 to 2147483647"),
    (grammar.check_version, 2**31, "task_version: 2147483648 is not a whole number from 0 to 2147483647"),
])
def test_the_message_names_key_value_and_what_is_right(check, value, message):
    with pytest.raises(BadRequest) as caught:
        check(value)
    assert caught.value.message == message
    assert retcode_of(caught.value) == 101


def test_the_key_in_the_message_is_the_caller_s():
    with pytest.raises(BadRequest, match=r"^initiator\.role: "):
        grammar.check_role("x", "initiator.role")


@pytest.mark.parametrize(("value", "text"), [
    (None, "null"), (True, "true"), (False, "false"), (0, "0"), (1, "1"), (-3, "-3"), (1.5, "1.5"), ("a", "'a'"),
    ({}, "an object"), ([], "a list"), ((), "a tuple"), (b"", "a bytes"), (float("nan"), "nan"),
    ("a\nb", "'a\\nb'"), ("z" * 61, f"'{'z' * 60}'..."), ("参与方", "'参与方'"), ("\u202ex", "'\\u202ex'"),
    ("\ud800", "'\\ud800'"), (2**200, "a very long number"),
])
def test_a_value_is_shown_on_one_short_line(value, text):
    assert grammar.shown(value) == text


@pytest.mark.parametrize(("key", "text"), [
    ("common", "common"), ("0|2", "0|2"), ("a.b", "'a.b'"), ("a b", "'a b'"), ("", "''"), (3, "3"), ("a\n", "'a\\n'"),
])
def test_a_key_is_plain_where_that_is_unmistakable(key, text):
    assert grammar.shown_key(key) == text


@given(st.text() | st.integers() | st.floats() | st.none() | st.binary())
def test_what_is_shown_is_printable_and_short(value):
    text = grammar.shown(value)
    assert text.isprintable()
    assert len(text) <= 700


@pytest.mark.parametrize("check", NAMED)
@given(value=st.text())
def test_what_passes_once_passes_again_unchanged(check, value):
    try:
        kept = check(value)
    except BadRequest:
        return
    assert check(kept) == kept
    assert not set(str(kept)) & set("/\\\n\r\0 '\"`$;&|")


def test_no_table_has_a_name_that_ends_with_a_space():
    """For MariaDB it would be the name without the space."""
    assert grammar.check_table_piece(" a b", "table_name") == " a b"
    for name in ("a ", " ", "a  "):
        with pytest.raises(BadRequest, match="without a space at its end"):
            grammar.check_table_piece(name, "table_name")
