"""The section of an engine of kind `ray`, and the keys by which programs find Ray."""

from __future__ import annotations

from pathlib import Path

import pytest

from fate_flow.core.model.errors import BadSettings
from fate_flow.core.model.resources import EngineSize
from fate_flow.settings.engines.engine_settings import EngineSettings
from fate_flow.settings.engines.ray import RayJobs, RaySettings
from fate_flow.settings.reader import load_settings

ADDRESS = "address: 'http://127.0.0.1:8265'"


def engine(folder: Path, name: str, text: str) -> EngineSettings:
    path = folder / "service_conf.yaml"
    path.write_text(f'party_id: "9999"\nengines: {{{name}: {{{text}}}}}\n', encoding="utf-8")
    return load_settings(path).engines[name]


def read(folder: Path, text: str) -> RaySettings:
    found = engine(folder, "ray", text)
    assert isinstance(found, RaySettings)
    return found


def test_it_says_where_ray_is_and_what_jobs_get_there(tmp_path: Path) -> None:
    found = read(tmp_path, f"{ADDRESS}, token_file: ray_token, cores: 64, resources: {{fl: 0.5}}, driver_cores: 1")
    assert (found.address, found.token_file) == ("http://127.0.0.1:8265", tmp_path / "ray_token")
    assert (found.size, found.own, found.driver_cores) == (EngineSize(1, 64), RayJobs({"fl": 0.5}), 1)
    assert found.program_env == {}, "a job of Ray has the address of Ray itself"
    assert read(tmp_path, "address: 'https://head:8265/'").address == "https://head:8265"


def test_a_partner_has_what_the_party_has_unless_it_says_otherwise(tmp_path: Path) -> None:
    jobs = "resources: {fl: 1}, runtime_env: {env_vars: {A: b}}"
    found = read(tmp_path, f"{ADDRESS}, {jobs}, partners: {{'10000': {{resources: {{guests: 1}}}}}}")
    assert found.partners == {"10000": RayJobs({"guests": 1.0}, {"env_vars": {"A": "b"}})}


def test_nodes_see_the_home_or_have_a_folder_for_workers(tmp_path: Path) -> None:
    assert read(tmp_path, ADDRESS).shared_home
    without = f"{ADDRESS}, token_file: ray_token, shared_home: false"
    found = read(tmp_path, f"{without}, scratch: /local/fed, ray_address: 'head:6379', ray_token_file: /etc/ray_token")
    assert (found.shared_home, found.scratch) == (False, Path("/local/fed"))
    assert read(tmp_path, without).scratch == Path("/tmp")


def test_programs_find_ray_on_any_engine_that_says_where_it_is(tmp_path: Path) -> None:
    text = "ray_address: 'head:6379', ray_token_file: ray_token"
    expected = {
        "FATE_FLOW_RAY_ADDRESS": "head:6379", "RAY_ADDRESS": "head:6379", "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(tmp_path / "ray_token"),
    }  # fmt: skip
    assert engine(tmp_path, "local", text).program_env == expected
    assert read(tmp_path, f"{ADDRESS}, {text}").program_env == expected
    assert engine(tmp_path, "local", "cores: 3").program_env == {}


@pytest.mark.parametrize(("text", "said"), [
    ("cores: 3", "engines.ray.address: is missing"),
    ("address: head", "engines.ray.address: 'head' is not of the form http://HOST:PORT"),
    ("address: 'ftp://head:1'", "engines.ray.address"),
    ("address: 'http://head:8265/jobs'", "without a path"),
    ("address: 'http://me:secret@head:8265'", "engines.ray.address: has a user or a password"),
    (f"{ADDRESS}, labels: {{big: {{}}}}", "engines.ray.labels.big: names no custom resources of nodes"),
    (f"{ADDRESS}, labels: {{big: {{mem: much}}}}", "engines.ray.labels.big.mem"),
    (f"{ADDRESS}, resources: {{fl: many}}", "engines.ray.resources.fl"),
    (f"{ADDRESS}, runtime_env: [pip]", "engines.ray.runtime_env"),
    (f"{ADDRESS}, runtime_env: {{env_vars: {{A: 1}}}}", "engines.ray.runtime_env.env_vars"),
    (f"{ADDRESS}, runtime_env: {{since: 2026-01-01}}", "cannot be written as JSON"),
    (f"{ADDRESS}, partners: {{bank: {{}}}}", "engines.ray.partners.bank: is not the id of a party"),
    (f"{ADDRESS}, partners: {{'10000': {{queue: x}}}}", "engines.ray.partners.10000.queue"),
    (f"{ADDRESS}, poll_seconds: 0", "engines.ray.poll_seconds"),
    (f"{ADDRESS}, shared_home: false", "engines.ray.shared_home: false needs engines.ray.token_file"),
    (f"{ADDRESS}, scratch: /local", "engines.ray.scratch: '/local' has no effect"),
    (f"{ADDRESS}, token_file: t, shared_home: false, scratch: local",
     "engines.ray.scratch: 'local' is not the absolute path"),
    (f"{ADDRESS}, token_file: t, shared_home: false, ray_address: 'head:1', ray_token_file: here",
     "engines.ray.ray_token_file: 'here' has to be an absolute path, that of a file of the nodes"),
    (f"{ADDRESS}, shared_home: maybe", "engines.ray.shared_home"),
    (f"{ADDRESS}, token: x", "engines.ray.token: no such key"),
    (f"{ADDRESS}, ray_address: 'http://head:8265'", "engines.ray.ray_address"),
    (f"{ADDRESS}, ray_token_file: token", "engines.ray.ray_token_file: is given without engines.ray.ray_address"),
])  # fmt: skip
def test_what_is_wrong_is_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadSettings) as caught:
        read(tmp_path, text)
    assert said in str(caught.value)
