"""The wheel of this checkout, built from a copy: setuptools writes into the tree that it builds from."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
FOLDERS = {"fate_flow": "fate_flow", "sql": "fate_flow_sql"}
"""Each with its name in the wheel."""
_FILES = ("setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE")
_BUILD = "import sys; from setuptools.build_meta import build_wheel; print(build_wheel(sys.argv[1]))"


def built_wheel(folder: Path) -> Path:
    """Its file, in this folder."""
    tree = folder / "tree"
    tree.mkdir()
    for name in _FILES:
        shutil.copy(CHECKOUT / name, tree)
    for name in FOLDERS:
        shutil.copytree(CHECKOUT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, str(folder)], cwd=tree, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.splitlines()[-1]
