"""Running the component of a worker in this process, by the command of its provider."""

from __future__ import annotations

import os
import runpy
import sys


def run(module: str, folder: str) -> None:
    """Run the component on the files in the folder of its worker. Ends with what its command raises, or returns."""
    sys.argv = [
        module, "component", "execute", "--process-tag", os.path.basename(folder),
        "--config", os.path.join(folder, "provider_task.yaml"),
        "--execution-final-meta-path", os.path.join(folder, "provider_result.json"),
    ]  # fmt: skip
    runpy.run_module(module, run_name="__main__", alter_sys=True)
