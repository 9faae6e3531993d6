"""flow key save: a PEM file as it is, or the JSON of the genuine client."""

from __future__ import annotations

import json

import pytest

PEM = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----\n"


@pytest.fixture
def pem(tmp_path):
    (tmp_path / "10000.pem").write_text(PEM)
    return "10000.pem"


@pytest.mark.parametrize(("more", "also"), [((), {}), (("--replaces", "3b1f"), {"replaces": "3b1f"})])
def test_a_pem_file_is_saved_as_it_is(flow, stub, pem, more, also):
    assert flow("key", "save", "--pem", pem, "-p", "10000", *more).exit_code == 0
    assert (stub.last.path, stub.last.json) == (
        "/v1/key/public/save", {"party_id": "10000", "key": PEM, **also})


def test_the_json_of_the_genuine_client_is_still_taken(flow, stub, write_json):
    conf = write_json("key.json", {"party_id": "10000", "key": PEM})
    assert flow("key", "save", "-c", conf).exit_code == 0
    assert stub.last.json == {"party_id": "10000", "key": PEM, "conf_path": conf}


@pytest.mark.parametrize("given", [(), ("--fingerprint", "ABC")])
def test_a_key_list_is_saved_as_it_is(flow, stub, tmp_path, given):
    (tmp_path / "10000.keys").write_text('{"key_list": "x"}\n')
    result = flow("key", "save", "--list", "10000.keys", "-p", "10000", *given)
    also = {"fingerprint": "ABC"} if given else {}
    assert (result.exit_code, stub.last.json) == (0, {"party_id": "10000", "key": '{"key_list": "x"}\n', **also})
    assert ("Compare the fingerprint with the operator of party 10000" in result.stderr) is not bool(given)


@pytest.mark.parametrize("arguments", [(), ("-p", "10000"), ("--pem", "10000.pem"), ("--pem", "none.pem", "-p", "1"),
                                       ("--list", "10000.pem"),
                                       ("--list", "10000.pem", "--pem", "10000.pem", "-p", "1"),
                                       ("--pem", "10000.pem", "-p", "1", "-c", "key.json")])
def test_half_of_a_key_is_wrong_usage(flow, stub, pem, tmp_path, arguments):
    (tmp_path / "key.json").write_text(json.dumps({}))
    assert flow("key", "save", *arguments).exit_code == 2
    assert stub.asked == []
