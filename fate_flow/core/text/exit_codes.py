"""Text for the exit codes and signals of processes."""

from __future__ import annotations

from signal import Signals

NO_RESULT = 74                 # a built-in component could not write its result file (EX_IOERR of sysexits.h)
_SHELL_OFFSET = 128            # shells and most wrappers add it to the number of the signal that ended the program
_MEANINGS = {126: "the program cannot be executed", 127: "the program was not found"}
_KILLED = "killed from outside, or by the kernel because memory ran out"


def describe_exit_code(code: int) -> str:
    """Return e.g. `exit code 137 (128 + 9: SIGKILL, killed from outside, ...)`; only the number if nothing is known."""
    if code in _MEANINGS:
        return f"exit code {code} ({_MEANINGS[code]})"
    number = code - _SHELL_OFFSET
    meaning = _describe(number) if number > 0 else ""
    return f"exit code {code} ({_SHELL_OFFSET} + {number}: {meaning})" if meaning else f"exit code {code}"


def describe_signal(number: int) -> str:
    """Return e.g. `signal 9 (SIGKILL, killed from outside, ...)`."""
    meaning = _describe(number)
    return f"signal {number} ({meaning})" if meaning else f"signal {number}"


def _describe(number: int) -> str:
    try:
        name = Signals(number).name
    except ValueError:
        return ""
    return f"{name}, {_KILLED}" if number == Signals.SIGKILL else name
