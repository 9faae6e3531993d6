"""Print where the programs for a part of the tests are: those that are installed, or those of Debian's packages.

    _programs.py prometheus      promtool
    _programs.py bubblewrap      bwrap
    _programs.py kustomize       kustomize
    _programs.py nginx           nginx
    _programs.py browser         chromium, chromedriver, and axe, a script that finds what keeps people out of a page
    _programs.py machine         qemu, a kernel and busybox, for a machine of the tests' own

Packages are unpacked under `.cache/<part>` once (`_debian.py`). axe comes from the npm registry, with a digest;
kustomize is a package of Debian 13, with a digest, because Debian 12 has none.
`libraries` is the value of LD_LIBRARY_PATH for the programs of packages, and `root` the folder; both are empty for
programs that are installed.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))      # `python -P` leaves it out
from _debian import (
    CACHE,
    NOT_TO_BE_HAD,
    Apt,
    NotToBeHad,
    architecture,
    fetched,
    fetched_package,
    first_dependency,
    library_path,
    locked,
)


@dataclass(frozen=True)
class Part:
    """Packages, and their programs: the path in the package by the name of the program."""

    packages: tuple[str, ...]
    programs: dict[str, str]


PARTS = {
    "prometheus": Part(("prometheus",), {"promtool": "usr/bin/promtool"}),
    "bubblewrap": Part(("bubblewrap",), {"bwrap": "usr/bin/bwrap"}),
    "nginx": Part(("nginx",), {"nginx": "usr/sbin/nginx"}),
    "browser": Part(
        ("chromium", "chromium-common", "chromium-driver", "fonts-dejavu-core"),
        {"chromium": "usr/lib/chromium/chromium", "chromedriver": "usr/bin/chromedriver"},
    ),
}


_QEMU = ("qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios", "busybox-static")
_KERNEL = "linux-image-amd64"


def machine() -> dict[str, str]:
    """Return the paths of qemu, the folder of its data, a kernel, its modules and busybox. Raise NotToBeHad.

    Always Debian's kernel: its groups are of version 2 alone, whatever this machine has."""
    if architecture() != "amd64":
        raise NotToBeHad("a machine of the tests' own has Debian's kernel for amd64 alone")
    known = ("usr/bin/qemu-system-x86_64", "bin/busybox")
    packages = _QEMU if (CACHE / "machine" / "complete").exists() else (*_QEMU, _kernel())
    root = fetched("machine", "qemu", packages, lambda at: [at / path for path in known])
    qemu, busybox = (str(root / path) for path in known)
    kernel, modules = next((root / "boot").glob("vmlinuz-*")), next((root / "lib" / "modules").iterdir())
    return {
        "qemu": qemu, "data": str(root / "usr" / "share"), "busybox": busybox, "kernel": str(kernel),
        "modules": str(modules), "libraries": library_path(root),
    }  # fmt: skip


def _kernel() -> str:
    """Return the package with the kernel that Debian's release has now."""
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="machine.") as folder:
        [package] = Apt(Path(folder, "packages"), "a kernel").download([_KERNEL])
        return first_dependency(package)


AXE = "https://registry.npmjs.org/axe-core/-/axe-core-4.14.1.tgz"
AXE_SHA256 = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745"
_AXE_FILE = "package/axe.min.js"
_SECONDS = 60.0


def axe() -> str:
    """Return the path of axe, which is downloaded once. Raise NotToBeHad."""
    kept = CACHE / "axe" / f"{AXE_SHA256[:16]}.js"
    with locked(CACHE / "axe.lock"):
        if kept.exists():
            return str(kept)
        try:
            with urllib.request.urlopen(AXE, timeout=_SECONDS) as answer:
                archive = answer.read()
        except OSError as error:
            raise NotToBeHad(f"axe cannot be downloaded: {error}") from error
        if hashlib.sha256(archive).hexdigest() != AXE_SHA256:
            raise NotToBeHad(f"{AXE} has another digest than {AXE_SHA256}")
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            file = files.extractfile(_AXE_FILE)
            assert file is not None, _AXE_FILE
            kept.parent.mkdir(exist_ok=True)
            draft = kept.with_suffix(".draft")
            draft.write_bytes(file.read())
            draft.replace(kept)
    return str(kept)


KUSTOMIZE = "pool/main/k/kustomize/kustomize_5.6.0+ds-1+b2_{}.deb"
KUSTOMIZE_SHA256 = {
    "amd64": "552bbe5563b522685b10f75a9a226bfbee9778fc313b205d595fdbb7e9c70e33",
    "arm64": "32d0e1959b5fc257101c8d6139da72af38ff7ce777089666f9d1c916810f1800",
}


def kustomize() -> str:
    """Return the path of kustomize, which is downloaded once. Raise NotToBeHad."""
    if installed := shutil.which("kustomize"):
        return installed
    processor = architecture()
    sha256 = KUSTOMIZE_SHA256.get(processor)
    if sha256 is None:
        raise NotToBeHad(f"kustomize is not installed, and is downloaded for {' and '.join(KUSTOMIZE_SHA256)} alone")
    return str(fetched_package("kustomize", "kustomize", KUSTOMIZE.format(processor), sha256) / "usr/bin/kustomize")


def programs_of(name: str) -> dict[str, str]:
    """Return the paths of the programs, `libraries` and `root`. Raise NotToBeHad."""
    if name == "kustomize":
        return {name: kustomize()}
    if name == "machine":
        return machine()
    part = PARTS[name]
    more = {"axe": axe()} if name == "browser" else {}
    installed = {program: shutil.which(program) for program in part.programs}
    if all(installed.values()):
        return {**{program: str(path) for program, path in installed.items()}, **more, "libraries": "", "root": ""}
    what = next(iter(part.programs))
    root = fetched(name, what, part.packages, lambda at: [at / path for path in part.programs.values()])
    unpacked = {program: str(root / path) for program, path in part.programs.items()}
    return {**unpacked, **more, "libraries": library_path(root), "root": str(root)}


def main(arguments: Sequence[str]) -> int:
    known = (*PARTS, "kustomize", "machine")
    if len(arguments) != 1 or arguments[0] not in known:
        sys.stderr.write(f"usage: _programs.py {'|'.join(known)}\n")
        return 2
    try:
        print(json.dumps(programs_of(arguments[0])))
    except NotToBeHad as error:
        sys.stderr.write(f"{error}\n")
        return NOT_TO_BE_HAD
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
