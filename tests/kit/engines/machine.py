"""A machine of a test's own: Debian's kernel in qemu, with the files of this machine to read, and groups of version 2.

It is emulated, so it needs no right and is slow. Its root is that of this machine, read-only: it writes to memory.
"""

from __future__ import annotations

import gzip
import lzma
import os
import shlex
import stat
import subprocess
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path

_MODULES = (
    "virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "netfs", "fscache",
    "9pnet", "9pnet_virtio", "9p",
)  # fmt: skip
_INIT = """\
#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
for i in 1 2 3; do for one in /modules/*; do $b insmod "$one" 2>/dev/null; done; done
$b mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 files /root || echo "no files"
for one in proc sysfs:sys devtmpfs:dev tmpfs:run; do $b mount -t "${one%:*}" none "/root/${one#*:}"; done
for one in fd:fd fd/0:stdin fd/1:stdout fd/2:stderr; do $b ln -s "/proc/self/${one%:*}" "/root/dev/${one#*:}"; done
$b mkdir -p /root/dev/shm
$b mount -t tmpfs none /root/dev/shm
$b mount -t cgroup2 none /root/sys/fs/cgroup
$b ip link set lo up
$b umount /proc
exec $b switch_root /root /bin/sh -c 'sh -c "$0" </dev/null; echo "it has ended: $?"
echo o >/proc/sysrq-trigger; sleep 60' {script}
"""
_SIZE = "3072"            # MB of its memory
_SECONDS = 840.0


def run_in_machine(programs: Mapping[str, str], folder: Path, script: str) -> str:
    """Run the lines for a shell as root of a machine; return what its console has shown. `folder`: for its first files.
    """
    first = folder / "first.gz"
    _write_first(first, programs, _INIT.replace("{script}", shlex.quote(script)))
    data = Path(programs["data"])
    argv = [
        programs["qemu"], "-L", str(data / "qemu"), "-L", str(data / "seabios"), "-accel", "tcg", "-cpu", "max",
        "-smp", "2", "-m", _SIZE, "-nographic", "-no-reboot", "-net", "none", "-kernel", programs["kernel"],
        "-initrd", str(first), "-append", "console=ttyS0 quiet panic=-1 cgroup_no_v1=all",
        "-virtfs", "local,path=/,mount_tag=files,security_model=none,readonly=on,multidevs=remap",
    ]  # fmt: skip
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_SECONDS, check=False,
        env={**os.environ, "LD_LIBRARY_PATH": programs["libraries"]},
    )  # fmt: skip
    return done.stdout.decode(errors="replace").replace("\r", "")


def _write_first(path: Path, programs: Mapping[str, str], init: str) -> None:
    """Write what the kernel begins with: an archive of busybox, the modules and the script."""
    found = {one.name.partition(".")[0]: one for one in Path(programs["modules"]).rglob("*.ko*")}
    files = {"bin/busybox": Path(programs["busybox"]).read_bytes(), "init": init.encode()}
    for name in _MODULES:
        if name in found:         # others are a part of the kernel
            module = found[name].read_bytes()
            files[f"modules/{name}"] = lzma.decompress(module) if found[name].suffix == ".xz" else module
    archive = BytesIO()
    for number, (name, mode, data) in enumerate(_entries(files), 1):
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        head = f"070701{''.join(f'{one:08x}' for one in fields)}{name}\0".encode()
        for part in (head, data):
            archive.write(part + b"\0" * (-len(part) % 4))
    path.write_bytes(gzip.compress(archive.getvalue(), 1))


def _entries(files: Mapping[str, bytes]) -> Iterator[tuple[str, int, bytes]]:
    for folder in ("bin", "modules", "proc", "root"):
        yield folder, stat.S_IFDIR | 0o755, b""
    for name, data in files.items():
        yield name, stat.S_IFREG | 0o755, data
    yield "TRAILER!!!", 0, b""
