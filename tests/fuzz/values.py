"""JSON values of every shape, and changes of good ones."""

from __future__ import annotations

import json
from random import Random
from typing import Any

JOB = "202601011200000000001"
ODD_TEXTS = (
    "", " ", "0", "-1", "null", "true", "../../etc/passwd", "/dev/zero", "a/b", "a\\b", "a\x00b", "a\nb", "\r\nX: y",
    "%", "%00", "%s%n", "{}", "$(id)", "' OR 1=1 --", "\ud800", "\u202e", "\ufeff", "\U0001f600" * 20, "e\u0301",
    "9" * 400, "1e999", "NaN", "x" * 31, "x" * 300, "x" * 70_000, "_", "-", ".", "..", "*", "__class__",
)
ODD_NUMBERS = (
    0, -1, 1, 2**31, 2**63, -(2**63) - 1, 2**64, 10**25, 10**400, 0.5, -0.0, 1e308, float("inf"), float("nan"),
)
KNOWN_TEXTS = (
    JOB, f"{JOB}_toy_0", "toy_0", "guest", "host", "local", "9999", "10003", "0", "canceled", "success", "failed",
    "Reader", "SecureAddExample", "demo", "site_a", "componentInfo", "jobSchedule", "FATE", "fate_flow", "STANDALONE",
    "PATH", "public", "train", "loss", "1", "2026-01-01",
)
KNOWN_KEYS = (
    "job_id", "role", "party_id", "component_name", "task_id", "task_version", "namespace", "name", "status", "jobs",
    "party_status", "free_cores", "revision", "dsl", "runtime_conf", "commands", "endpoint", "body", "job_parameters",
)
DEEPEST = 4


def any_value(random: Random, depth: int = 0) -> Any:
    """A JSON value of any shape; numbers that JSON does not have are among them."""
    kind = random.randrange(8 if depth < DEEPEST else 6)
    if kind == 0:
        return random.choice((None, True, False))
    if kind == 1:
        return random.choice(ODD_NUMBERS)
    if kind in (2, 3):
        return random.choice(ODD_TEXTS)
    if kind in (4, 5):
        return random.choice(KNOWN_TEXTS)
    if kind == 6:
        return [any_value(random, depth + 1) for _ in range(random.randrange(4))]
    return {any_key(random): any_value(random, depth + 1) for _ in range(random.randrange(4))}


def any_key(random: Random) -> str:
    return random.choice(KNOWN_KEYS if random.random() < 0.7 else ODD_TEXTS)


def fitting(random: Random, schema: dict[str, Any]) -> Any:
    """A value that this schema of the OpenAPI document is likely to take."""
    if "const" in schema:
        return schema["const"]
    if found := schema.get("enum"):
        return random.choice(found)
    if found := schema.get("anyOf") or schema.get("oneOf"):
        return fitting(random, random.choice(found))
    if "job-id" in str(schema.get("format")):
        return JOB
    kind = schema.get("type", "string")
    kind = random.choice(kind) if isinstance(kind, list) else kind
    if kind == "object":
        return {key: fitting(random, one) for key, one in schema.get("properties", {}).items() if random.random() < 0.6}
    if kind == "array":
        return [fitting(random, schema.get("items", {})) for _ in range(random.randrange(3))]
    simple = {"null": None, "boolean": True, "integer": random.randrange(12), "number": 1.5}
    return simple[kind] if kind in simple else random.choice(KNOWN_TEXTS)


def changed(random: Random, value: Any) -> Any:
    """The value with one place of it changed: something else there, a key more or less, or the place itself."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        key, more = random.choice(list(value)), dict(value)
        if random.random() < 0.2:
            del more[key]
        elif random.random() < 0.2:
            more[any_key(random)] = any_value(random)
        else:
            more[key] = changed(random, value[key])
        return more
    if isinstance(value, list) and value and random.random() < 0.7:
        at = random.randrange(len(value))
        return [*value[:at], changed(random, value[at]), *value[at + 1 :]]
    return any_value(random)


def huge(random: Random) -> bytes:
    """JSON text that is large, deep, wide, or hardly JSON."""
    number = random.choice((500, 5_000, 60_000))
    return random.choice((
        lambda: b"[" * number,
        lambda: b"[" * number + b"]" * number,
        lambda: b'{"a":' * number + b"1" + b"}" * number,
        lambda: b"[" + b"[]," * number + b"[]]",
        lambda: b'{"job_id": "' + b"1" * number + b'"}',
        lambda: b'{"job_id": ' + b"1" * number + b"}",
        lambda: b"{" + b",".join(b'"k%d": %d' % (one, one) for one in range(number // 10)) + b"}",
        lambda: b"{" + b'"a": 1, ' * (number // 10) + b'"a": 2}',
        lambda: b" " * number + b"{}",
        lambda: b"\xff\xfe" * number,
    ))()


def as_bytes(random: Random, value: Any) -> bytes:
    """The value as JSON; sometimes as a server should not get it."""
    text = json.dumps(value, ensure_ascii=random.random() < 0.7)
    if random.random() < 0.05:
        text = text.replace('"', "'")
    coding = random.choice(("utf-8", "utf-8", "utf-8", "utf-8", "utf-8", "utf-8", "utf-16", "utf-8-sig", "latin-1"))
    return text.encode(coding, "surrogatepass" if coding.startswith("utf") else "replace")


def damaged(random: Random, data: bytes) -> bytes:
    """The bytes with some of them changed, lost, doubled or moved."""
    found = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4, 16))):
        at, end = sorted(random.randrange(len(found) + 1) for _ in range(2))
        end = min(end, at + random.choice((1, 1, 2, 8, 200)))
        way = random.randrange(5)
        if way == 0:
            found[at:end] = random.randbytes(end - at)
        elif way == 1:
            del found[at:end]
        elif way == 2:
            found[at:at] = found[at:end]
        elif way == 3:
            found[at:at] = random.choice((b"\r\n", b"\n", b"\r", b"\0", b":", b" ", b"\r\n\r\n", b"\xff", b"\t", b","))
        elif at < len(found):
            found[at] ^= 1 << random.randrange(8)
    return bytes(found)
