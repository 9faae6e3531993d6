"""What the built-in tasks do, inside a worker; knows the task's configuration, never the server."""

from __future__ import annotations

from importlib import import_module

_HEAVY = (
    "csv",
    "encodings.idna",      # a connection asks for it
    "http.client",
    "logging.config",
    "logging.handlers",
    "private_set_intersection.python",
    "pymysql",
    "shutil",              # argparse asks for it
    "sqlite3",
    "yaml",
    "fate_flow.components.__main__",
    "fate_flow.components.worker.executor",
)


def preload() -> None:
    """Imports everything a component needs, so that a worker forked afterwards starts in milliseconds."""
    for name in _HEAVY:
        import_module(name)
    for component in import_module("fate_flow.components.worker.catalogue").CATALOGUE.values():
        import_module(component.python_module)
