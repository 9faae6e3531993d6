"""The section `providers` of the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.modules import ProviderPlace
from fate_flow.settings.reader import load_settings


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """The place of a configuration file."""
    path = tmp_path / "conf" / "service_conf.yaml"
    path.parent.mkdir()
    return path


@pytest.mark.parametrize(("text", "message"), [
    ("{Fate: {version: 2.2.0, python: /bin/sh}}", "providers.Fate: is not a name of a provider, of 1 to 30 small"),
    ("{fate: {python: /bin/sh}}", "providers.fate.version: is missing; it is a version, such as 2.2.0"),
    ("{fate: {version: 2 2, python: /bin/sh}}", "providers.fate.version: '2 2' is not a version, such as 2.2.0"),
    ("{fate: {version: 2.2.0}}", "providers.fate.python: is missing; name the Python of the environment that has"),
    ("{fate: {version: 2.2.0, python: /no/x}}", "providers.fate.python: there is no file '/no/x'; name the Python"),
    ("{fate: {version: 2.2.0, python: /etc/passwd}}", "providers.fate.python: '/etc/passwd' is not executable; name"),
    ("{fate: {version: 2.2.0, python: /bin/sh, module: a b}}", "providers.fate.module: 'a b' is not a Python module"),
    ("{fate: {version: 2.2.0, python: /bin/sh, pyton: x}}", "providers.fate.pyton: no such key; did you mean python"),
    ("{fate: {version: 2.2.0, python: /bin/sh, warm: 1}}", "providers.fate.warm: 1 is neither true nor false"),
])
def test_a_provider_that_cannot_be_used_is_told(bare: Path, text: str, message: str) -> None:
    bare.write_text(f'party_id: "9999"\nproviders: {text}\n', encoding="utf-8")
    with pytest.raises(BadSettings, match=message):
        load_settings(bare)


def test_the_python_of_a_provider_is_relative_to_the_file_and_stays_a_link(bare: Path) -> None:
    python = bare.parent.parent / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/bin/sh")
    text = "providers: {fate: {version: 2.2.0, python: ../env/bin/python}}"
    bare.write_text(f'party_id: "9999"\n{text}\n', encoding="utf-8")
    assert load_settings(bare).providers == {"fate": ProviderPlace("fate", "2.2.0", str(python), "fate.components")}
