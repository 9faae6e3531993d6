"""The section of an engine of kind `slurm`."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.resources import EngineSize
from fate_flow.settings.engines.slurm import SlurmSettings, SlurmShare
from fate_flow.settings.reader import load_settings


def read(folder: Path, text: str) -> SlurmSettings:
    path = folder / "service_conf.yaml"
    path.write_text(f'party_id: "9999"\nengines: {{hpc: {{kind: slurm, {text}}}}}\n', encoding="utf-8")
    found = load_settings(path).engines["hpc"]
    assert isinstance(found, SlurmSettings)
    return found


def test_it_says_what_jobs_get_there(tmp_path: Path) -> None:
    found = read(tmp_path, "cores: 64, partition: fl, account: bank, commands: /opt/slurm/bin, longest_pending: 60")
    assert (found.size, found.own) == (EngineSize(1, 64), SlurmShare("fl", "bank"))
    assert (found.commands, found.longest_pending) == (Path("/opt/slurm/bin"), 60)


def test_a_partner_has_what_the_party_has_unless_it_says_otherwise(tmp_path: Path) -> None:
    found = read(tmp_path, "partition: fl, account: bank, partners: {'10000': {account: guests}}")
    assert found.partners == {"10000": SlurmShare("fl", "guests")}


def test_labels_stand_for_features_of_nodes(tmp_path: Path) -> None:
    assert read(tmp_path, "constraint: fl, labels: {big: mem512, fast: nvme&hdr}").labels == {
        "big": "mem512", "fast": "nvme&hdr",
    }  # fmt: skip


@pytest.mark.parametrize(("text", "shared", "scratch"), [
    ("cores: 1", True, "/tmp"), ("shared_home: false", False, "/tmp"),
    ("shared_home: false, scratch: /local/fed", False, "/local/fed"),
])  # fmt: skip
def test_nodes_see_the_home_or_have_a_folder_for_workers(
    tmp_path: Path, text: str, shared: bool, scratch: str
) -> None:
    found = read(tmp_path, text)
    assert (found.shared_home, found.scratch) == (shared, Path(scratch))


@pytest.mark.parametrize(("text", "said"), [
    ("scratch: /local", "engines.hpc.scratch: '/local' has no effect"),
    ("shared_home: false, scratch: local", "engines.hpc.scratch: 'local' is not the absolute path"),
    ("shared_home: false, scratch: /a/%j", "engines.hpc.scratch: '/a/%j' is not the absolute path"),
    ("shared_home: sometimes", "engines.hpc.shared_home"),
    ("labels: {big: mem512|mem1024}", "engines.hpc.labels.big: 'mem512|mem1024' is not the name of a feature of nodes"),
    ("labels: {big: ''}", "engines.hpc.labels.big: '' is not the name of a feature of nodes"),
    ("labels: {b g: x}", "engines.hpc.labels.b g: 'b g' is not a label: 1 to 30 letters"),
    ("constraint: a|b, labels: {big: mem512}", "engines.hpc.constraint: 'a|b' cannot be joined with engines."),
    ("partners: {bank: {}}", "engines.hpc.partners.bank: is not the id of a party"),
    ("partners: {'10000': {queue: x}}", "engines.hpc.partners.10000.queue"),
    ("poll_seconds: 0", "engines.hpc.poll_seconds"),
    ("longest_pending: -1", "engines.hpc.longest_pending"),
    ("node: 3", "engines.hpc.node"),
])  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadSettings) as caught:
        read(tmp_path, text)
    assert said in str(caught.value)
