"""The headers of signatures are read in one form each, and everything else is refused."""

from __future__ import annotations

import itertools
from base64 import b64decode, b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from fate_flow.peers.signature import (
    INPUT,
    NAMES,
    SIGNATURE,
    Covered,
    digest_of,
    read_signature_input,
    sign,
    signature_base,
    signature_fields,
)
from fate_flow.peers.signed_answers import CoveredAnswer, read_answer_signature, sign_answer
from tests.kit.site_keys import private_key

KEY = private_key(1)
COVERED = Covered("POST", "/v1/party/heartbeat?a=1", digest_of(b"{}"), "9999", "10000")
CREATED, NONCE = 1_700_000_000, "n" * 24
ASKED = sign(KEY, COVERED, CREATED, NONCE, asks=True)
ANSWER = CoveredAnswer(200, digest_of(b"{}"), "10000", ASKED[INPUT], ASKED[SIGNATURE])
FIELDS = {
    "request": sign(KEY, COVERED, CREATED, NONCE),
    "request for a signed answer": ASKED,
    "answer": sign_answer(KEY, ANSWER),
}
forms = pytest.mark.parametrize("form", list(FIELDS))


def is_read(form: str, signature_input: str, signature: str) -> bool:
    """Whether these headers have a form that is known."""
    read = read_answer_signature if form == "answer" else read_signature_input
    return read(signature_input, signature) is not None


def is_right(form: str, signature_input: str, signature: str) -> bool:
    """Whether these headers are read, and belong to what was signed."""
    if form == "answer":
        found = read_answer_signature(signature_input, signature)
        return found is not None and found.key_id == KEY.public.key_id and found.holds(KEY.public, ANSWER)
    asked = read_signature_input(signature_input, signature)
    return asked is not None and asked.key_id == KEY.public.key_id and asked.holds(KEY.public, COVERED)


@given(st.integers(0, 10**12 - 61), st.text("azAZ09_-", min_size=22, max_size=64), st.booleans())
def test_what_is_signed_is_read_back(created: int, nonce: str, asks: bool) -> None:
    head = sign(KEY, COVERED, created, nonce, asks=asks)
    found = read_signature_input(head[INPUT], head[SIGNATURE])
    assert found is not None
    assert (found.created, found.expires, found.nonce, found.asks) == (created, created + 60, nonce, asks)
    assert (found.key_id, found.algorithm) == (KEY.public.key_id, "ed25519" if asks else "")
    assert found.holds(KEY.public, COVERED)


@forms
@given(data=st.data())
def test_a_change_of_a_letter_is_refused(form: str, data: st.DataObject) -> None:
    """Each letter counts: also one that means the same to a lenient reader, such as the last bits of base64."""
    fields = FIELDS[form]
    assert is_right(form, fields[INPUT], fields[SIGNATURE])
    name = data.draw(st.sampled_from([INPUT, SIGNATURE]))
    text = fields[name]
    at = data.draw(st.integers(0, len(text) - 1))
    new = data.draw(st.text(max_size=3) | st.sampled_from([*' ";,=:()\t\n\0', text[at:], text]))
    changed = text[:at] + new + text[at + data.draw(st.integers(0, 2)):]
    if changed != text:
        assert not is_right(form, **{"signature_input": fields[INPUT], "signature": fields[SIGNATURE],
                                     {INPUT: "signature_input", SIGNATURE: "signature"}[name]: changed})  # fmt: skip


@given(st.text(), st.text())
def test_any_text_is_refused_without_an_exception(signature_input: str, signature: str) -> None:
    for form, fields in FIELDS.items():
        assert not is_read(form, signature_input, signature)
        assert not is_read(form, signature_input, fields[SIGNATURE])
        assert not is_read(form, fields[INPUT], signature)


@forms
def test_another_order_is_refused(form: str) -> None:
    fields = FIELDS[form]
    listed, *parameters = fields[INPUT].rsplit(";", 3 if form == "answer" else fields[INPUT].count(";"))
    for order in itertools.permutations(parameters):
        text = ";".join((listed, *order))
        assert is_read(form, text, fields[SIGNATURE]) == (text == fields[INPUT])
    names = fields[INPUT][6 : fields[INPUT].index(")")].split(" ")
    for order in itertools.permutations(names):
        text = fields[INPUT].replace(" ".join(names), " ".join(order))
        assert is_read(form, text, fields[SIGNATURE]) == (text == fields[INPUT])


@forms
def test_nothing_may_be_missing_or_there_twice(form: str) -> None:
    signature_input, signature = FIELDS[form][INPUT], FIELDS[form][SIGNATURE]
    for piece in (*signature_input.split(";"), *(f'"{name}"' for name in NAMES), '"@status"'):
        for text in (
            signature_input.replace(f";{piece}", "", 1), signature_input.replace(piece, f"{piece};{piece}", 1),
            signature_input.replace(piece, f"{piece} {piece}", 1),
        ):  # fmt: skip
            assert text == signature_input or not is_read(form, text, signature), text


@forms
@pytest.mark.parametrize("join", [", ", ",", ";", " ", "\n"])
def test_two_fields_are_refused(form: str, join: str) -> None:
    """Servers join fields of the same name with commas."""
    signature_input, signature = FIELDS[form][INPUT], FIELDS[form][SIGNATURE]
    other = signature_input.replace("site=", "b=")
    for two in (f"{signature_input}{join}{signature_input}", f"{signature_input}{join}{other}", f"{other}{join}"):
        assert not is_read(form, two, signature)
    assert not is_read(form, signature_input, f"{signature}{join}{signature}")
    assert not is_read(form, signature_input, f"{signature}{join}b=:AAAA:")


@forms
def test_huge_and_odd_values_are_refused(form: str) -> None:
    fields = FIELDS[form]
    size = 200_000
    changes = (
        ("=1700000000;", f"={'9' * size};"), ("=1700000000;", "=1700000000.0;"), ("=1700000000;", "=-1;"),
        ("=1700000000;", "=+1;"), ("=1700000000;", "=\u0661\u0662;"), (NONCE, "n" * 65), (NONCE, "n" * 21),
        (NONCE, "n" * size), (KEY.public.key_id, KEY.public.key_id.upper()), (KEY.public.key_id, "a" * size),
        ('"ed25519"', '"ED25519"'), ('"ed25519"', "ed25519"), ("site=", "SITE="), ("site=", ""),
    )  # fmt: skip
    for old, new in changes:
        text = fields[INPUT].replace(old, new)
        assert text == fields[INPUT] or not is_read(form, text, fields[SIGNATURE]), (old, new[:20])
    signature = b64decode(fields[SIGNATURE][6:-1])
    for odd in (b"", signature[:8], signature * size):
        assert not is_read(form, fields[INPUT], f"site=:{b64encode(odd).decode()}:")
    assert not is_right(form, fields[INPUT], f"site=:{b64encode(signature + b'x').decode()}:")
    url_safe = fields[SIGNATURE].replace("+", "-").replace("/", "_")
    for text in (fields[SIGNATURE].replace("=:", "="), fields[SIGNATURE].replace("==", ""), url_safe):
        assert text == fields[SIGNATURE] or not is_read(form, fields[INPUT], text)


def test_one_form_is_not_read_as_another() -> None:
    request, asked, answer = FIELDS.values()
    assert read_answer_signature(request[INPUT], request[SIGNATURE]) is None
    assert read_answer_signature(asked[INPUT], asked[SIGNATURE]) is None
    assert read_signature_input(answer[INPUT], answer[SIGNATURE]) is None


@forms
def test_a_key_signs_with_its_own_algorithm_alone(form: str) -> None:
    """Even if its owner has signed that it was another one."""
    parameters = FIELDS[form][INPUT].removeprefix("site=").replace('alg="ed25519"', 'alg="rsa-pss-sha512"')
    covered = ANSWER if form == "answer" else COVERED
    fields = signature_fields(KEY, parameters, covered.base(parameters))
    assert is_read(form, fields[INPUT], fields[SIGNATURE])
    assert is_right(form, fields[INPUT], fields[SIGNATURE]) == (form == "request"), "which names no algorithm"


# ---------------------------------------------------------------------- vectors of the standards


def test_the_ed25519_example_of_rfc_9421() -> None:
    """Appendix B.2.6, with the key of B.1.4. What it covers is not what we cover; base and signature are made alike."""
    lines = (
        ('"date"', "Tue, 20 Apr 2021 02:07:55 GMT"), ('"@method"', "POST"), ('"@path"', "/foo"),
        ('"@authority"', "example.com"), ('"content-type"', "application/json"), ('"content-length"', "18"),
    )  # fmt: skip
    listed = " ".join(identifier for identifier, _ in lines)
    base = signature_base(lines, f'({listed});created=1618884473;keyid="test-key-ed25519"')
    secret = Ed25519PrivateKey.from_private_bytes(b64decode("n4Ni+HpISpVObnQMW0wOhCKROaIKqKtW/2ZYb2p9KcU="))
    public = Ed25519PublicKey.from_public_bytes(b64decode("JrQLj5P/89iXES9+vFgrIy29clF9CC/oPPsw3c5D0bs="))
    signature = b64decode("wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==")
    public.verify(signature, base)
    assert secret.sign(base) == signature


def test_the_digest_example_of_rfc_9530() -> None:
    assert digest_of(b'{"hello": "world"}') == "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:"
