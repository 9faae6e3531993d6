"""FATE's components: the Python that has them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from servers import CHECKOUT, call

VERSION = "2.2.0"
_CACHES = {"HF_HOME": "huggingface", "TORCHINDUCTOR_CACHE_DIR": "torch"}
"""Where libraries of FATE make folders when they are imported; without these, in the user's home and in /tmp."""
_INSTALLED = "import importlib.metadata as found; print(found.version('pyfate'))"


def found(named: Path | None) -> Path:
    """Return the Python that the user has named, else that of bin/fate-provider, which makes it if it is not there.

    All that this process starts from now on keeps FATE's caches in the checkout. Raise SystemExit if there is none."""
    os.environ.update({name: str(CHECKOUT / ".cache" / "fate_caches" / folder) for name, folder in _CACHES.items()})
    if named is None:
        print(f"looking for FATE {VERSION} ...")
        return Path(json.loads(call("fate-provider", "install", "--json"))["python"])
    if not os.access(named, os.X_OK) or named.is_dir():
        _refuse(f"{named} is not there, or cannot be executed")
    python = Path(os.path.abspath(named))        # not resolved: the link is what makes it that of its environment
    asked = subprocess.run([python, "-I", "-c", _INSTALLED], capture_output=True, text=True, check=False)
    if asked.stdout.strip() != VERSION:
        _refuse(f"{named} has no FATE {VERSION}, but {asked.stdout.strip() or 'none at all'}")
    return python


def _refuse(why: str) -> None:
    raise SystemExit(f"demo: --provider: {why}; bin/fate-provider install makes one, and prints its path")
