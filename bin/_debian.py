"""Programs of Debian's packages for the tests, without installing them: downloaded with apt-get once, and unpacked.

They are unpacked under `.cache/<name>`, with the libraries that they need and the system lacks; later runs need no
network. This uses only the standard library, since it runs before there is a virtual environment.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

CACHE = Path(__file__).resolve().parent.parent / ".cache"
NOT_TO_BE_HAD = 4
"""The exit code of a script whose programs are neither installed nor to be downloaded."""

ARCHIVES = ("http://deb.debian.org/debian", "http://archive.debian.org/debian")
"""The second one has what the first one has no longer."""
_APT_HELPER = "/usr/lib/apt/apt-helper"

Programs = Callable[[Path], Sequence[Path]]


class NotToBeHad(Exception):
    """The programs are not installed and cannot be downloaded."""


def fetched(name: str, what: str, packages: Sequence[str], programs: Programs) -> Path:
    """Return the folder with these packages, which the first run downloads. Raise NotToBeHad.

    `what`: the program that people know; `programs`: the files whose libraries have to be there, in such a folder."""
    root = CACHE / name
    with locked(CACHE / f"{name}.lock"):
        if not (root / "complete").exists():
            _fetch(root, what, packages, programs)
    return root


def fetched_package(name: str, what: str, path: str, sha256: str) -> Path:
    """Return the folder with one package of any release, which the first run downloads. Raise NotToBeHad.

    `path`: of the package in the archive. What it needs has to be in the system."""
    root = CACHE / name
    with locked(CACHE / f"{name}.lock"):
        complete = root / "complete"
        if not complete.exists() or complete.read_text("utf-8") != sha256:
            shutil.rmtree(root, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=CACHE, prefix=f"{name}.") as made_in:
                making = Path(made_in, "root")
                making.mkdir()
                unpack(Apt(Path(made_in, "packages"), what).pooled(path, sha256), making)
                (making / "complete").write_text(sha256, "utf-8")
                making.rename(root)
    return root


def architecture() -> str:
    """Return what Debian calls the processor of this machine; empty without dpkg."""
    return _output(["dpkg", "--print-architecture"]).strip() if shutil.which("dpkg") else ""


def library_path(root: Path) -> str:
    """Return the value of LD_LIBRARY_PATH for programs of this folder."""
    return ":".join(sorted({str(path.parent) for path in root.rglob("lib*.so*")}))


def environment(libraries: str) -> dict[str, str]:
    """Return the environment for a program that needs these folders of libraries."""
    if not libraries:
        return dict(os.environ)
    inherited = os.environ.get("LD_LIBRARY_PATH", "")
    return {**os.environ, "LD_LIBRARY_PATH": libraries + (f":{inherited}" if inherited else "")}


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of this file, which is made if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(root: Path, what: str, names: Sequence[str], programs: Programs) -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            raise NotToBeHad(f"{what} is not installed, and without {tool} Debian's package cannot be downloaded")
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.write(f"{what} is not installed; downloading Debian's packages into .cache (once) ...\n")
    with tempfile.TemporaryDirectory(dir=CACHE, prefix=f"{root.name}.") as made_in:
        making = Path(made_in, "root")
        making.mkdir()
        apt = Apt(Path(made_in, "packages"), what)
        wanted = list(names)
        seen: set[str] = set()
        while wanted:
            packages = apt.download(wanted)
            seen.update(wanted)
            for package in packages:
                unpack(package, making)
            missing = _missing_libraries(programs(making), library_path(making))
            wanted = [name for name in _libraries_of(packages) if name not in seen] if missing else []
        if missing:
            raise NotToBeHad(f"Debian's {what} needs {', '.join(missing)}, which none of its dependencies contains")
        (making / "complete").touch()
        making.rename(root)


def unpack(package: Path, root: Path) -> None:
    done = subprocess.run(
        ["dpkg-deb", "-x", str(package), str(root)],  # noqa: S607
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )
    if done.returncode:
        raise NotToBeHad(f"{package.name} cannot be unpacked: {_one_line(done.stdout)}")


def _missing_libraries(programs: Sequence[Path], libraries: str) -> list[str]:
    done = subprocess.run(
        ["ldd", *map(str, programs)],  # noqa: S607
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(libraries), check=False,
    )
    return sorted(set(re.findall(r"^\s*(\S+) => not found", done.stdout.decode(), re.MULTILINE)))


def _libraries_of(packages: Sequence[Path]) -> list[str]:
    """Return the library packages that these depend on and that are not installed."""
    names: list[str] = []
    for package in packages:
        fields = _output(["dpkg-deb", "-f", str(package), "Pre-Depends", "Depends"])
        for line in fields.splitlines():
            for one in line.partition(":")[2].split(","):
                first = re.match(r"\s*(lib[a-z0-9.+-]+)", one)    # the first alternative, which Debian prefers
                if first and first[1] not in names and not _is_installed(first[1]):
                    names.append(first[1])
    return names


def first_dependency(package: Path) -> str:
    """Return the first package that this one depends on."""
    return _output(["dpkg-deb", "-f", str(package), "Depends"]).split()[0].rstrip(",")


def _is_installed(package: str) -> bool:
    return "ok installed" in _output(["dpkg-query", "-W", "-f=${Status}\n", package])


def _output(argv: Sequence[str]) -> str:
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    return done.stdout.decode("utf-8", "replace")


class Apt:
    """apt-get with its own caches and package lists: it reads the system's, and writes nothing to the system."""

    def __init__(self, folder: Path, what: str) -> None:
        self._folder = folder
        self._what = what
        folder.mkdir()
        state = CACHE / "apt"
        for name in ("lists/partial", "cache/archives/partial"):
            (state / name).mkdir(parents=True, exist_ok=True)
        self._own_lists = ("-o", f"Dir::State::Lists={state / 'lists'}")
        # The machine's apt.conf.d is not used, since its hooks would change the machine; but its Acquire options, such
        # as proxies, are copied.
        config = state / "apt.conf"
        kept = [line for line in _output(["apt-config", "dump"]).splitlines() if line.startswith("Acquire::")]
        config.write_text("\n".join((
            'Dir::Etc::Main "/dev/null";', f'Dir::Etc::Parts "{state / "no.conf.d"}";',
            f'Dir::Cache "{state / "cache"}";', 'Dir::Cache::pkgcache "";', 'Dir::Cache::srcpkgcache "";',
            f'APT::Sandbox::User "{pwd.getpwuid(os.getuid()).pw_name}";', 'Debug::NoLocking "1";',
            *kept, "",
        )), encoding="utf-8")
        self._environment = {**os.environ, "APT_CONFIG": str(config), "LC_ALL": "C"}

    def download(self, names: Sequence[str]) -> list[Path]:
        """Download the packages and return their files: with the machine's lists, or with new ones if these fail."""
        before = set(self._folder.iterdir())
        problem = self._apt_get("download", *names)
        if problem:
            problem = self._apt_get(*self._own_lists, "update")
            problem = self._apt_get(*self._own_lists, "download", *names) and (problem or "apt-get download failed")
        found = sorted(set(self._folder.iterdir()) - before)
        if problem or len(found) < len(names):
            raise NotToBeHad(f"{self._what} is not installed, and Debian's packages cannot be downloaded: {problem}")
        return found

    def file(self, url: str, sha256: str) -> Path:
        """Download one file of an archive, which has to have this digest. Raise NotToBeHad."""
        path = self._folder / url.rpartition("/")[2]
        done = subprocess.run(
            [_APT_HELPER, "download-file", url, str(path), f"SHA256:{sha256}"],
            cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )
        if done.returncode or not path.exists():
            raise NotToBeHad(f"{self._what}: {url} cannot be downloaded: {_one_line(done.stdout)}")
        return path

    def pooled(self, path: str, sha256: str) -> Path:
        """Download a file of Debian's archive, whichever release it is of. Raise NotToBeHad."""
        if not shutil.which("apt-get"):
            raise NotToBeHad(f"{self._what} is downloaded by apt, which is missing")
        for archive in ARCHIVES[:-1]:
            try:
                return self.file(f"{archive}/{path}", sha256)
            except NotToBeHad:
                continue
        return self.file(f"{ARCHIVES[-1]}/{path}", sha256)

    def _apt_get(self, *arguments: str) -> str:
        """Run apt-get; return the reason of a failure in one line, "" for success."""
        done = subprocess.run(
            ["apt-get", "-qq", *arguments],  # noqa: S607
            cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        # For apt-get, an update that reached no mirror is only a warning.
        errors = [line for line in lines if "Failed to fetch" in line or line.startswith(("E:", "Err:"))]
        return (errors or lines or ["apt-get failed"])[0] if errors or done.returncode else ""


def _one_line(output: bytes) -> str:
    return " ".join(output.decode("utf-8", "replace").split())
