"""Print where the programs for a part of the tests are: those that are installed, or those of Debian's packages.

    _programs.py prometheus      promtool
    _programs.py bubblewrap      bwrap
    _programs.py browser         chromium, chromedriver, and the folder with fonts

Packages are unpacked under `.cache/<part>` once (`_debian.py`). `libraries` is the value of LD_LIBRARY_PATH for their
programs, and `root` the folder; both are empty for programs that are installed.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))      # `python -P` leaves it out
from _debian import NOT_TO_BE_HAD, NotToBeHad, fetched, library_path


@dataclass(frozen=True)
class Part:
    """Packages, and their programs: the path in the package by the name of the program."""

    packages: tuple[str, ...]
    programs: dict[str, str]


PARTS = {
    "prometheus": Part(("prometheus",), {"promtool": "usr/bin/promtool"}),
    "bubblewrap": Part(("bubblewrap",), {"bwrap": "usr/bin/bwrap"}),
    "browser": Part(
        ("chromium", "chromium-common", "chromium-driver", "fonts-dejavu-core"),
        {"chromium": "usr/lib/chromium/chromium", "chromedriver": "usr/bin/chromedriver"},
    ),
}


def programs_of(name: str) -> dict[str, str]:
    """Return the paths of the programs, `libraries` and `root`. Raise NotToBeHad."""
    part = PARTS[name]
    installed = {program: shutil.which(program) for program in part.programs}
    if all(installed.values()):
        return {**{program: str(path) for program, path in installed.items()}, "libraries": "", "root": ""}
    what = next(iter(part.programs))
    root = fetched(name, what, part.packages, lambda at: [at / path for path in part.programs.values()])
    unpacked = {program: str(root / path) for program, path in part.programs.items()}
    return {**unpacked, "libraries": library_path(root), "root": str(root)}


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in PARTS:
        sys.stderr.write(f"usage: _programs.py {'|'.join(PARTS)}\n")
        return 2
    try:
        print(json.dumps(programs_of(arguments[0])))
    except NotToBeHad as error:
        sys.stderr.write(f"{error}\n")
        return NOT_TO_BE_HAD
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
