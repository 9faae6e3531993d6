"""One term for one thing: the terms that docs/glossary.md has replaced do not come back.

Identifiers are checked part by part (`begin_turn` has the parts `begin` and `turn`); comments, docstrings, texts and
documents are checked by patterns. Columns (`f_turn`) and keys on the wire keep the names that peers and homes know.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("no_gc")]

CHECKOUT = Path(__file__).parents[2]
ITSELF = Path(__file__).relative_to(CHECKOUT).as_posix()

NAMES = {
    "bell": "wakeup", "chore": "check", "chores": "maintenance", "crew": "replicas", "crews": "replicas",
    "culprit": "failed_row, failed_worker", "depose": "take_scheduler_lease", "deposed": "lease_lost",
    "desk": "use_cases", "door": "route, listener", "doors": "routes, listeners", "ears": "listener",
    "fallen": "failed", "gate": "program_policy", "happening": "occurrence", "happenings": "occurrences",
    "hurried": "force_stop_sent", "hurry": "force_stop", "judge": "handle", "knower": "informed_party",
    "lack": "blocker", "lacks": "blocked_by", "lane": "sender", "lanes": "senders", "legacy": "is_plain_v1",
    "lineage": "home_id", "news": "events", "picture": "snapshot", "resign": "release_scheduler_lease",
    "room": "capacity, space", "ruled": "policy_matches", "sight": "observation", "stretch": "bucket",
    "tally": "count_cache", "teller": "notifier", "told": "rendered, declaration, given, ...",
    "turn": "reservation round, round_number", "turns": "reservation rounds", "turnstile": "fair_file_lock",
    "unfree": "undo_free", "verdict": "reply outcome", "wish": "pending, request", "wishes": "pending requests",
    "words": "text",
}  # fmt: skip
"""A part that no identifier has, and what it is called now."""

PROSE = {
    r"\b(front )?desk\b": "use cases",
    r"\bcrews?\b": "replicas",
    r"\bhappenings?\b": "occurrence, policy event",
    r"\bverdicts?\b": "reply outcome",
    r"\bculprits?\b": "failed worker, party at fault",
    r"\blanes?\b": "peer sender",
    r"\bturnstile\b": "fair file lock",
    r"\bdepose[ds]?\b": "replace, lose the lease",
    r"\bwish(es)?\b": "request",
    r"\bchores?\b": "maintenance, check",
    r"\bbells?\b": "wake-up",
    r"\bnews\b": "event, message, notice",
    r"\bdoors?\b": "route, listener",
    r"\bhurr(y|ies|ied)\b": "force the stop",
    r"\b(no|a|waits? for|lacks?|has|is|find|finds) room\b(?! there\b| for \d| for a suffix)": "capacity, space",
    r"\b(a|the|no|this|next|later|another|every) turns?\b(?! to write| did not come)": "reservation round",
}  # fmt: skip
"""What no sentence says, and what it says instead."""
_ANY_PROSE = re.compile("|".join(PROSE))

ALLOWED_NAMES = {
    "told": {"tests/unit/test_words.py"},
    "room": {"tests/kit/cli/terminal.py"},
    "legacy": {"fate_flow/store/database/base.py"},                      # peewee's `legacy_table_names`
    "words": {      # arguments of a command line, and of a shell: they are words
        "fate_flow/cli/flow/not_offered.py", "fate_flow/cli/console/table_layout.py", "tests/unit/test_documents.py",
    },
}
"""Identifiers of libraries, and names that mean what English means by them: by part, the files that may have it."""

ALLOWED_PROSE = {
    r"\b(no|a|waits? for|lacks?|has|is|find|finds) room\b(?! there\b| for \d| for a suffix)": {
        "fate_flow/cli/output/progress.py", "fate_flow/cli/output/queue_table.py",      # on a screen
        "fate_flow/api/http/declared.py",
        "fate_flow/relay/",                                                             # on a disk
        "fate_flow/engines/local/engine.py",                                            # in a socket
        "tests/unit/api/http/test_unknown_keys.py", "tests/integration/store/test_storage_faults.py",
        # in a message, on a disk
        "tests/unit/peers/test_peer_senders.py", "docs/explanation/reliability.md",
        "docs/explanation/authority.md",
    },
    r"\b(a|the|no|this|next|later|another|every) turns?\b(?! to write| did not come)": {
        "fate_flow/store/database/fair_file_lock.py",                    # writers of a file take turns
        "tests/unit/fate_1_11_2/test_recorded_host.py",
    },
}  # fmt: skip
"""By pattern, the files and folders in which it means something else."""

LEFT_TO_PEERS = {"turn"}
"""Keyword arguments of factories in tests that stand for keys on the wire."""


@cache
def sources() -> dict[str, Path]:
    found = [*CHECKOUT.glob("fate_flow/**/*.py"), *CHECKOUT.glob("tests/**/*.py"), *CHECKOUT.glob("bin/**/*.py")]
    return {path.relative_to(CHECKOUT).as_posix(): path for path in sorted(found)}


@cache
def documents() -> dict[str, Path]:
    found = [CHECKOUT / "README.md", *CHECKOUT.glob("docs/**/*.md")]
    return {path.relative_to(CHECKOUT).as_posix(): path for path in sorted(found)}


@cache
def identifiers(name: str) -> frozenset[str]:
    """Those in comments and texts too. Tokens take much longer: they are made where these or the text give cause."""
    return frozenset(re.findall(r"[^\W\d]\w*", sources()[name].read_text(encoding="utf-8")))


@pytest.fixture(scope="module", autouse=True)
def _no_token_stays() -> Iterator[None]:
    yield
    tokens.cache_clear()


@cache
def tokens(name: str) -> tuple[tokenize.TokenInfo, ...]:
    with tokenize.open(sources()[name]) as file:
        return tuple(tokenize.generate_tokens(file.readline))


@cache
def parts_of(identifier: str) -> frozenset[str]:
    return frozenset(part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier))


def is_sentence(identifier: str) -> bool:
    """The name of a test, or of a bug that a mutant has: prose."""
    return identifier.startswith("test_") or identifier.strip("_").count("_") >= 4


def banned_names(name: str) -> Iterator[str]:
    if not any(parts_of(one) & NAMES.keys() for one in identifiers(name) if not is_sentence(one)):
        return
    all_tokens = tokens(name)
    for token, after in zip(all_tokens, [*all_tokens[1:], all_tokens[-1]], strict=True):
        if token.type != tokenize.NAME or token.string.startswith("f_") or is_sentence(token.string):
            continue
        if token.string in LEFT_TO_PEERS and after.string == "=" and name.startswith("tests/"):
            continue
        for part in parts_of(token.string) & NAMES.keys():
            if name not in ALLOWED_NAMES.get(part, ()):
                yield f"{name}:{token.start[0]}: {token.string}: say {NAMES[part]}"


def prose_in(name: str) -> Iterator[tuple[int, str]]:
    """Comments, docstrings, texts of more than one word, and names that are sentences, each with its line."""
    sentences = [one.replace("_", " ") for one in identifiers(name) if is_sentence(one)]
    text = "\n".join([sources()[name].read_text(encoding="utf-8"), *sentences])
    if not _ANY_PROSE.search(text.lower()):
        return
    for token in tokens(name):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and " " in token.string):
            yield token.start[0], token.string
        elif token.type == tokenize.NAME and is_sentence(token.string):
            yield token.start[0], token.string.replace("_", " ")


def banned_prose(name: str, texts: Iterator[tuple[int, str]]) -> Iterator[str]:
    for line, text in texts:
        for pattern, better in PROSE.items():
            found = re.search(pattern, text, re.IGNORECASE)
            if found and not name.startswith(tuple(ALLOWED_PROSE.get(pattern, ()))):
                at = line + text[: found.start()].count("\n")
                yield f"{name}:{at}: {found[0]!r}: say {better}"


def test_identifiers_have_the_words_of_the_glossary() -> None:
    assert [one for name in sources() if name != ITSELF for one in banned_names(name)] == []


def test_comments_and_texts_have_the_words_of_the_glossary() -> None:
    assert [one for name in sources() if name != ITSELF for one in banned_prose(name, prose_in(name))] == []


def test_documents_have_the_words_of_the_glossary() -> None:
    texts = {name: path.read_text(encoding="utf-8") for name, path in documents().items()}
    clean = {name: re.sub(r"`[^`\n]+`", "``", text) for name, text in texts.items()}
    assert [one for name, text in clean.items() for one in banned_prose(name, iter([(1, text)]))] == []


def test_the_glossary_is_short_enough_to_be_learnt() -> None:
    text = (CHECKOUT / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = [line for line in text.splitlines() if re.match(r"\| (?!term|-)", line)]
    assert 20 < len(terms) < 50


def test_every_exception_names_a_file_that_is_there() -> None:
    known = {*sources(), *documents()}
    for files in (*ALLOWED_NAMES.values(), *ALLOWED_PROSE.values()):
        gone = [one for one in files if not any(name.startswith(one) for name in known)]
        assert gone == [], f"{gone} are not there"
