"""Exit codes and signals, for people."""

from __future__ import annotations

import pytest

from fate_flow.core.text.exit_codes import describe_exit_code, describe_signal

KILLED = "SIGKILL, killed from outside, or by the kernel because memory ran out"


@pytest.mark.parametrize(("code", "text"), [
    (1, "exit code 1"), (3, "exit code 3"), (128, "exit code 128"), (255, "exit code 255"), (200, "exit code 200"),
    (126, "exit code 126 (the program cannot be executed)"),
    (127, "exit code 127 (the program was not found)"),
    (137, f"exit code 137 (128 + 9: {KILLED})"),
    (139, "exit code 139 (128 + 11: SIGSEGV)"),
    (143, "exit code 143 (128 + 15: SIGTERM)"),
])  # fmt: skip
def test_an_exit_code_that_stands_for_a_signal_says_which(code: int, text: str) -> None:
    assert describe_exit_code(code) == text


@pytest.mark.parametrize(("number", "text"), [
    (9, f"signal 9 ({KILLED})"), (15, "signal 15 (SIGTERM)"), (11, "signal 11 (SIGSEGV)"), (64_000, "signal 64000"),
])
def test_a_signal_has_a_name(number: int, text: str) -> None:
    assert describe_signal(number) == text
