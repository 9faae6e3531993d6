"""Write what a provider says about all its components: `PYTHON describe.py MODULE VERSION FILE`.

The Python of the provider runs this file. It calls the provider's own command, `python -m MODULE component list|desc`,
for all components in one process: most of the time of each call would go into the same imports.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import os
import platform
import runpy
import sys
import traceback
from typing import Any

OLDEST_PYTHON = (3, 11)
"""The wrapper of its workers needs it."""
_LONGEST_REASON = 500


class Refused(Exception):
    """The provider is not as the configuration says; the text says what is."""


def described(module: str, version: str) -> dict[str, Any]:
    """Return the version, and by component the text (YAML) of its description. Raises Refused."""
    if sys.version_info < OLDEST_PYTHON:
        needed = ".".join(map(str, OLDEST_PYTHON))
        raise Refused(f"python: is Python {platform.python_version()}; {needed} or a newer one is needed")
    found = _version_of(module)
    if found and found != version:
        raise Refused(f"version: {version!r} is not what this Python has: {module.split('.', 1)[0]} is {found} there")
    listed = names(said(module, "component", "list"))
    return {
        "version": found or version, "python": platform.python_version(),
        "components": {name: said(module, "component", "desc", "--name", name) for name in listed},
    }


def _version_of(module: str) -> str:
    """Return the version that the package says of itself; empty if it says none."""
    name = module.split(".", 1)[0]
    try:
        package = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise Refused(f"python: this Python has no package {name!r}") from error
    return str(getattr(package, "__version__", ""))


def said(module: str, *arguments: str) -> str:
    """Return what the provider's command prints."""
    sys.argv = [module, *arguments]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            if end.code not in (None, 0):
                raise Refused(f"module: {module} {' '.join(arguments)} ended with {end.code!r}") from end
    return printed.getvalue()


def names(text: str) -> list[str]:
    """Return the names in a list of components, which is JSON or what Python prints of a dict."""
    try:
        listed = ast.literal_eval(text.strip())
        return sorted({str(name) for names in listed.values() for name in names})
    except (ValueError, SyntaxError, AttributeError, TypeError) as error:
        raise Refused("module: its command 'component list' prints no names of components by their origin") from error


def main(module: str, version: str, path: str) -> int:
    """Write the file, whole or not at all: what is described, or `{"why": TEXT}`."""
    try:
        answer = described(module, version)
    except Refused as refused:
        answer = {"why": str(refused)}
    except BaseException as error:  # noqa: BLE001  # whatever it is, the operator has to read it
        traceback.print_exc()
        answer = {"why": f"python: {type(error).__name__}: {error}"[:_LONGEST_REASON]}
    draft = f"{path}.{os.getpid()}"
    with open(draft, "w", encoding="utf-8") as file:
        json.dump(answer, file)
    os.replace(draft, path)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
