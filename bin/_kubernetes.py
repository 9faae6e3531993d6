"""Print where the programs of a real Kubernetes are, which is built for the tests: `_kubernetes.py`.

kube-apiserver, kube-controller-manager and kubectl are built from the source package of Debian 12, the newest one of
Debian that has all of Kubernetes: later ones have only what kubectl needs. So it is release 1.20
(docs/guides/kubernetes.md says what that cannot show). Go comes from PyPI (`requirements/go.txt`), etcd from Debian.
The programs are kept under `.cache/kubernetes`; what was needed to build them is removed.

No test may use custom resources: the JSON library of that source (reflect2 1.0.1) knows the maps of Go before 1.18
alone, and a server that writes such an object ends.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))      # `python -P` leaves it out
from _debian import CACHE, NOT_TO_BE_HAD, Apt, NotToBeHad, fetched, locked
from _environment import ENVIRONMENTS, provide
from _environment import NotToBeHad as NoEnvironment

VERSION = "1.20.2"
SOURCE = f"pool/main/k/kubernetes/kubernetes_1.20.5+really{VERSION}.orig.tar.gz"
SHA256 = "b83c0780efb182d928dc63d46488a847f161f04e40a94b96bf5247dd671ecdfc"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kubectl")
TAGS = "providerless,dockerless"
_STAMP = "complete"
_DESCRIBED = re.compile(rb"^// *\+k8s:openapi-gen=", re.MULTILINE)
_NOT_SERVED = {"code-generator", "sample-apiserver", "testdata"}
_VERSIONS = ("component-base/version", "client-go/pkg/version")


class Failed(Exception):
    """All is there, but it cannot be built."""


def programs() -> dict[str, str]:
    """Return the paths of the programs, which the first run builds. Raise NotToBeHad, Failed."""
    root, recipe = CACHE / "kubernetes", json.dumps([SHA256, TAGS, ENVIRONMENTS["go"].packages.read_text("utf-8")])
    with locked(CACHE / "kubernetes.lock"):
        stamp = root / _STAMP
        if not stamp.exists() or stamp.read_text("utf-8") != recipe:
            _build(root)
            stamp.write_text(recipe, "utf-8")
    etcd = shutil.which("etcd") or str(_etcd())
    return {**{name: str(root / name) for name in PROGRAMS}, "etcd": etcd}


def _etcd() -> Path:
    def in_packages(root: Path) -> Sequence[Path]:
        return [root / "usr" / "bin" / "etcd"]

    return in_packages(fetched("etcd", "etcd", ("etcd-server",), in_packages))[0]


def _build(root: Path) -> None:
    begun = time.monotonic()
    sys.stderr.write(f"building Kubernetes {VERSION} into .cache (once; takes minutes) ...\n")
    go = provide(ENVIRONMENTS["go"]).with_name("go")
    shutil.rmtree(root, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="kubernetes.") as made_in:
        making = Path(made_in)
        source = making / "src" / "k8s.io" / "kubernetes"         # where Go looks below GOPATH
        source.mkdir(parents=True)
        archive = Apt(making / "source", "Kubernetes").pooled(SOURCE, SHA256)
        _run(["tar", "-xzf", str(archive), "--strip-components=1"], source)
        environment = {
            "GOPATH": made_in, "GOCACHE": f"{made_in}/cache", "GOTMPDIR": made_in, "GO111MODULE": "off",
            "GOENV": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0",
        }  # fmt: skip
        _describe_the_api(go, source, making, environment)
        made = making / "made"
        _run([
            str(go), "build", "-trimpath", "-tags", TAGS, "-ldflags", _link_options(), "-o", f"{made}/",
            *(f"./cmd/{name}" for name in PROGRAMS),
        ], source, environment)  # fmt: skip
        made.rename(root)
    sys.stderr.write(f"Kubernetes {VERSION} is built after {time.monotonic() - begun:.0f} s\n")


def _describe_the_api(go: Path, source: Path, making: Path, environment: dict[str, str]) -> None:
    """Make the only source file that is not in the package: the description of all types, from their comments."""
    generator = making / "openapi-gen"
    _run([str(go), "build", "-o", str(generator), "./vendor/k8s.io/kube-openapi/cmd/openapi-gen"], source, environment)
    folders = {
        path.parent for top in ("staging/src", "pkg/apis") for path in (source / top).rglob("*.go")
        if not _NOT_SERVED & set(path.parts) and _DESCRIBED.search(path.read_bytes())
    }  # fmt: skip
    names = (one.relative_to(source).as_posix().replace("staging/src/", "vendor/") for one in sorted(folders))
    package = "k8s.io/kubernetes"
    _run([
        str(generator), "--logtostderr", "-i", ",".join(f"{package}/{one}" for one in names),
        "-p", f"{package}/pkg/generated/openapi", "-O", "zz_generated.openapi",
        "-h", "vendor/k8s.io/code-generator/hack/boilerplate.go.txt", "-r", str(making / "violations"),
    ], source, environment)  # fmt: skip


def _link_options() -> str:
    """Return what the linker writes into the programs: without it, they say that they are release 0.0.0."""
    major, minor, _ = VERSION.split(".")
    said = {"gitVersion": f"v{VERSION}", "gitMajor": major, "gitMinor": minor}
    at = [f"k8s.io/kubernetes/vendor/k8s.io/{one}" for one in _VERSIONS]
    return " ".join(["-s", "-w", *(f"-X {one}.{key}={value}" for one in at for key, value in said.items())])


def _run(argv: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GO")}
    done = subprocess.run(
        argv, cwd=folder, env={**kept, **(environment or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    if done.returncode:
        lines = done.stdout.decode("utf-8", "replace").strip().splitlines()[-15:]
        raise Failed("\n".join([f"{Path(argv[0]).name} has ended with exit code {done.returncode}", *lines]))


def main() -> int:
    try:
        print(json.dumps(programs()))
    except (NotToBeHad, NoEnvironment) as error:
        sys.stderr.write(f"{error}\n")
        return NOT_TO_BE_HAD
    except (Failed, OSError) as error:
        sys.stderr.write(f"Kubernetes cannot be built: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
