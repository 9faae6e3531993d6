"""Print where the checker of records is, which is built for the tests: `_record_checker.py`.

It is tests/kit/record/checker, made with libraries that Debian has as packages: of Debian 13, with digests, because
Debian 12 has none. Go comes from PyPI (`requirements/go.txt`). The checker is kept under `.cache/record`; what else was
needed to build it is removed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))      # `python -P` leaves it out
from _debian import CACHE, NOT_TO_BE_HAD, Apt, NotToBeHad, locked, unpack
from _environment import ENVIRONMENTS, provide
from _environment import NotToBeHad as NoEnvironment

CHECKER = Path(__file__).resolve().parent.parent / "tests" / "kit" / "record" / "checker" / "checker.go"
LIBRARIES = {
    "golang-golang-x-mod/golang-golang-x-mod-dev_0.19.0-1_all.deb":
        "f584607ab89b121e22a1dabf77a08c78a345847ca0c6eb5cfaeccf5cb8344b56",
    "golang-github-transparency-dev-formats/golang-github-transparency-dev-formats-dev_0.0~git20250403.313b830-2_all.deb":
        "8cf48408bf31f12b01305102c6972aa01fe300430e4ded3fae2d9a5d0f79f7e3",
}


class Failed(Exception):
    """All is there, but it cannot be built."""


def checker() -> str:
    """Return the path of the checker, which is built once. Raise NotToBeHad, Failed."""
    recipe = sha256(json.dumps([
        CHECKER.read_text("utf-8"), LIBRARIES, ENVIRONMENTS["go"].packages.read_text("utf-8"),
    ]).encode()).hexdigest()  # fmt: skip
    built = CACHE / "record" / f"checker-{recipe[:16]}"
    with locked(CACHE / "record.lock"):
        if not built.exists():
            _build(built)
    return str(built)


def _build(built: Path) -> None:
    sys.stderr.write("building the checker of records into .cache (once) ...\n")
    go = provide(ENVIRONMENTS["go"]).with_name("go")
    shutil.rmtree(built.parent, ignore_errors=True)
    built.parent.mkdir()
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="record.") as made_in:
        making = Path(made_in)
        apt = Apt(making / "packages", "a library of Go")
        for path, digest in LIBRARIES.items():
            unpack(apt.pooled(f"pool/main/g/{path}", digest), making / "root")
        draft = making / "checker"
        done = subprocess.run(
            [str(go), "build", "-trimpath", "-o", str(draft), str(CHECKER)],
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith("GO")},
                "GOPATH": f"{making / 'root'}/usr/share/gocode", "GOCACHE": f"{making / 'cache'}", "GOTMPDIR": made_in,
                "GO111MODULE": "off", "GOENV": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0",
            },
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        if done.returncode:
            raise Failed(done.stdout.decode("utf-8", "replace").strip())
        draft.rename(built)


def main(arguments: Sequence[str]) -> int:
    if arguments:
        sys.stderr.write("usage: _record_checker.py\n")
        return 2
    try:
        print(json.dumps({"checker": checker()}))
    except (NotToBeHad, NoEnvironment) as error:
        sys.stderr.write(f"{error}\n")
        return NOT_TO_BE_HAD
    except (Failed, OSError) as error:
        sys.stderr.write(f"the checker of records cannot be built: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
