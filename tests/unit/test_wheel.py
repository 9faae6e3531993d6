"""The wheel has all that the tree has: a package that nobody listed was missing in it."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.kit.wheel import CHECKOUT, FOLDERS, built_wheel

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_has_what_the_tree_has(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {
        f"{package}/{path.relative_to(CHECKOUT / folder).as_posix()}"
        for folder, package in FOLDERS.items()
        for path in (CHECKOUT / folder).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert found == expected


def test_the_wheel_has_the_commands(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        [name] = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        text = archive.read(name).decode()
    assert "flow = fate_flow.cli.flow.main:main" in text
    assert "fate_flow = fate_flow.cli.server.main:main" in text
