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
    "private_set_intersection.python",
    "pymysql",
    "shutil",              # needed by argparse
    "sqlite3",
    "yaml",
    "fate_flow.components.__main__",
    "fate_flow.components.worker.executor",
)


def preload() -> None:
    """Import all modules that components need, so that a worker forked afterwards starts in milliseconds."""
    for name in _HEAVY:
        import_module(name)
    providers = import_module("fate_flow.components.providers.table").PROVIDERS
    for component in providers.components.values():
        if module := providers.of(component).python_module(component):
            import_module(module)
