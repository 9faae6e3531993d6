"""What tasks do: the providers of components, and our own components, which run inside a worker.

Components know the configuration of their task, not the server.
"""

from __future__ import annotations

from importlib import import_module

_HEAVY = (
    "csv",
    "encodings.idna",      # needed by connections
    "http.client",
    "logging.config",
    "logging.handlers",
    "shutil",              # needed by argparse
    "sqlite3",
    "yaml",
    "fate_flow.components.__main__",
    "fate_flow.components.worker.executor",
)


def preload() -> None:
    """Import what every component needs, so that a worker forked afterwards starts in milliseconds.

    The module of a component comes with the first order for one: a server that runs no Intersection and asks no
    database server has no memory taken by their libraries."""
    for name in _HEAVY:
        import_module(name)
