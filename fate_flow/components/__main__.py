"""The command of the workers that run our modules: `python -m fate_flow.components component execute|list|desc`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from fate_flow.components.providers.description_document import description_document
from fate_flow.components.providers.table import PROVIDERS


def main(argv: Sequence[str]) -> int:
    """Carry out one command and return its exit code; never exit."""
    try:
        options = _PARSER.parse_args(argv)
    except SystemExit as stop:   # argparse has printed the error or its help
        return stop.code if isinstance(stop.code, int) else 2
    if options.command == "execute":
        from fate_flow.components.worker.executor import execute  # imported here, so that other commands start fast

        return execute(options.config, options.execution_final_meta_path)
    if options.command == "list":
        return _say({"buildin": [one.name for one in PROVIDERS.components.values()], "thirdparty": []})
    return _describe(options.name)


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fate_flow.components")
    component = parser.add_subparsers(required=True).add_parser("component")
    commands = component.add_subparsers(dest="command", required=True)
    execute = commands.add_parser("execute", help="run one task")
    execute.add_argument("--config", type=Path, required=True)
    execute.add_argument("--execution-final-meta-path", type=Path, required=True)
    execute.add_argument("--process-tag", help="shown in the list of processes, and nothing else")
    commands.add_parser("list", help="the names of all components")
    commands.add_parser("desc", help="what a component takes and gives").add_argument("--name", required=True)
    return parser


_PARSER = _make_parser()     # made at import, before the forks of workers, because it takes milliseconds


def _describe(name: str) -> int:
    info = PROVIDERS.find(name)
    if info is None:
        sys.stderr.write(f"there is no component {name!r}\n")
        return 1
    return _say(description_document(info))


def _say(document: object) -> int:
    # JSON in ASCII, without exponents and long keys, is also YAML, and saves the import of yaml.
    sys.stdout.write(f"{json.dumps(document, indent=2)}\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
