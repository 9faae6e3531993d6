"""What a party lets the programs of others begin, read and leave, on a real file system."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from fate_flow.components.base.errors import ComponentError
from fate_flow.components.builtin import command as collector
from fate_flow.components.providers.program_order import ORDER, Order
from fate_flow.components.tables.table import Table
from fate_flow.components.tables.table_uri import format_uri
from fate_flow.components.worker.task import TaskContext
from fate_flow.core.model.program import InputFile, ProgramRules, Secret, read_program
from fate_flow.core.model.spec import Party
from fate_flow.engines.local import programs
from fate_flow.engines.local.program_preparation import Ready, clear_scratch, prepare
from fate_flow.engines.local.programs import ConfiguredProgramPolicy, NotAllowed, read_secret

CONTENT = "#!/bin/sh\n"
SHA256 = hashlib.sha256(CONTENT.encode()).hexdigest()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "tool"
    path.parent.mkdir()
    path.write_text(CONTENT)
    path.chmod(0o755)
    return path


def objection(
    allow: list[str], argv: list[str] | str, policy: dict[str, Any] | None = None, of: str = "10000",
    granted: Collection[str] | None = None, **said: Any,
) -> str:  # fmt: skip
    """What party 10000 says to a job of its own, or of the party `of`."""
    rules = ProgramRules(**{"enabled": True, "allow": tuple(allow), **(policy or {})})
    return ConfiguredProgramPolicy(rules, "10000").objection(read_program({"command": argv, **said}), of, granted)


# ---------------------------------------------------------------------- what may begin


def test_nothing_begins_where_commands_are_off(program: Path) -> None:
    assert "commands.enabled is false" in objection([str(program)], [str(program)], {"enabled": False})


def test_a_program_on_the_list_may_begin_and_no_other(program: Path) -> None:
    assert objection([str(program)], [str(program), "-v"]) == ""
    said = objection([str(program)], ["/bin/false"])
    assert said.startswith("commands.allow names neither /bin/false")
    assert said.endswith(f"allowed is {program}")
    assert objection([], "exit 0").endswith("allowed is nothing")


def test_a_link_counts_as_what_it_leads_to(program: Path, tmp_path: Path) -> None:
    link, other = tmp_path / "link", tmp_path / "other"
    link.symlink_to(program)
    other.symlink_to("/bin/false")
    assert objection([str(link)], [str(program)]) == objection([str(program)], [str(link)]) == ""
    described = objection([str(link)], [str(other)])
    assert (
        f"names neither {other} nor its sha256; it is {os.path.realpath('/bin/false')}; allowed is {link}" in described
    )


@pytest.mark.parametrize("initiator", ["9999", "10000", "0"])
def test_another_party_hears_only_what_it_has_written(
    folder: Path, program: Path, tmp_path: Path, initiator: str
) -> None:
    """No path behind a link, nothing else that is allowed, nothing of a file: at the submit and when it runs."""
    (tmp_path / "link").symlink_to("/bin/false")
    real, is_own = os.path.realpath("/bin/false"), initiator != "9999"
    rules, allow, wrong = {"files_root": str(tmp_path)}, [str(program)], "0" * 64
    script = f"sha256:{hashlib.sha256(b'').hexdigest()}"
    (tmp_path / "data").write_bytes(b"")
    known = [{"name": "x", "path": "data", "sha256": wrong}]
    refused = [
        (objection(allow, [str(tmp_path / "link")], rules, of=initiator),
         f"commands.allow names neither {tmp_path / 'link'} nor its sha256", f"; it is {real}; allowed is {program}"),
        (objection(allow, ["false"], rules, of=initiator),
         "commands.allow names neither false nor its sha256", f"; it is {real}; allowed is {program}"),
        (objection(allow, ["./go"], rules, of=initiator, files=[{"name": "go", "content": ""}]),
         f"commands.allow does not name {script}, which is what go holds", f"; allowed is {program}"),
        (objection(allow, [str(program)], rules, of=initiator, files=known),
         f"files: x: sha256 of data is not {wrong} at this party", f"; it is {script.removeprefix('sha256:')}"),
    ]  # fmt: skip
    for described, text, detail in refused:
        assert described == (text + detail if is_own else text)
    with pytest.raises(NotAllowed) as caught:
        ready(folder, program, rules, argv=("false",), initiator=initiator, own="10000")
    assert str(caught.value) == refused[1][1] + (refused[1][2] if is_own else "")


def test_an_allowed_program_has_to_be_there_and_to_be_executable(program: Path, tmp_path: Path) -> None:
    assert objection(["/gone"], ["/gone"]) == (
        "command: /gone cannot be found (No such file or directory) at this party, which allows it: an executable file "
        "is needed"
    )
    assert f"{tmp_path} is not a file at this party" in objection([str(tmp_path)], [str(tmp_path)])
    program.chmod(0o644)
    assert "is not executable for this server's user" in objection([str(program)], [str(program)])
    assert objection([str(program)], ["/gone"]).startswith("commands.allow names"), "whether it is there is not said"


def test_what_cannot_be_run_of_the_list_is_known_when_the_server_starts(program: Path, tmp_path: Path) -> None:
    allow = (str(program), "/gone", str(tmp_path), f"sha256:{SHA256}")
    assert programs.unusable(ProgramRules(enabled=True, allow=allow)) == [
        "commands.allow: /gone cannot be found (No such file or directory): a job that names it is refused",
        f"commands.allow: {tmp_path} is not a file: a job that names it is refused",
    ]
    assert programs.unusable(ProgramRules(enabled=False, allow=allow)) == []
    program.chmod(0o644)
    [said] = programs.unusable(ProgramRules(enabled=True, allow=(str(program),)))
    assert "is not executable" in said
    copied = ProgramRules(enabled=True, allow=(str(program),), files_root=str(tmp_path))
    assert programs.unusable(copied) == [], "what is copied for a worker is made executable there"


def test_with_a_digest_it_is_the_content_that_counts(program: Path) -> None:
    allow = [f"sha256:{SHA256}"]
    assert objection(allow, [str(program)]) == ""
    program.write_text("#!/bin/sh\necho\n")
    for name in (str(program), f"{program}.gone"):
        text = f"commands.allow names neither {name} nor its sha256; allowed is sha256:{SHA256}"
        assert objection(allow, [name]) == text, "neither what is in it nor whether it is there"


def test_what_may_never_end_is_not_read_to_know_what_is_in_it(tmp_path: Path) -> None:
    """Any party may name it, and waits for the answer."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    said: list[str] = []
    asks = Thread(target=lambda: said.append(objection([f"sha256:{SHA256}"], [str(pipe)])), daemon=True)
    asks.start()
    asks.join(90)
    assert "".join(said).startswith(f"commands.allow names neither {pipe} nor its sha256")


def test_a_program_that_stays_what_it_was_is_read_once(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(programs, "digest_of", lambda path: read.append(path) or SHA256)
    program_policy = ConfiguredProgramPolicy(ProgramRules(enabled=True, allow=(f"sha256:{SHA256}",)))
    wanted = read_program({"command": [str(program)]})
    assert program_policy.reads_programs
    assert [program_policy.objection(wanted, "9999") for _ in range(3)] == [""] * 3
    assert len(read) == 1
    program.write_text("#!/bin/sh\necho\n")
    program_policy.objection(wanted, "9999")
    other = program.with_name("other")
    other.write_text(CONTENT)
    other.replace(program)
    program_policy.objection(wanted, "9999")
    assert len(read) == 3
    program_policy.objection(read_program({"command": [f"{program}.gone"]}), "9999")
    assert len(read) == 4


@pytest.mark.parametrize(
    ("enabled", "allow", "root", "reads"),
    [
        (True, ["/bin/sh"], "", False), (False, [f"sha256:{SHA256}"], "/srv", False), (True, [], "", False),
        (True, [f"sha256:{SHA256}"], "", True), (True, [], "/srv", True),
    ],
)  # fmt: skip
def test_a_program_policy_that_needs_no_content_says_so(
    enabled: bool, allow: list[str], root: str, reads: bool
) -> None:
    assert (
        ConfiguredProgramPolicy(ProgramRules(enabled=enabled, allow=tuple(allow), files_root=root)).reads_programs
        is reads
    )


@pytest.mark.parametrize(
    ("granted", "is_run"),
    [(None, True), ([f"sha256:{SHA256}"], True), ([], False), ([f"sha256:{SHA256[::-1]}"], False)],
)
def test_a_program_that_is_allowed_has_to_be_granted_as_well(
    program: Path, tmp_path: Path, granted: list[str] | None, is_run: bool
) -> None:
    (tmp_path / "tool").write_text(CONTENT)
    root, allow = {"files_root": str(tmp_path)}, [f"sha256:{SHA256}"]
    said = [
        objection([str(program)], [str(program)], of="9999", granted=granted),
        objection(allow, ["./go"], of="9999", granted=granted, files=[{"name": "go", "content": CONTENT}]),
        objection(allow, ["./go"], root, of="9999", granted=granted, files=[{"name": "go", "path": "tool"}]),
    ]
    names = [str(program), "go", "tool"]
    refused = [f"command: {name} was not granted to the initiator (fate_flow grants, there)" for name in names]
    assert said == ([""] * 3 if is_run else refused)
    assert objection([], [str(program)], granted=[f"sha256:{SHA256}"]), "what is granted has to be allowed as well"


def test_a_name_is_looked_for_in_the_path(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(program.parent))
    assert objection([str(program)], ["tool"]) == ""
    assert objection([str(program)], ["missing"]).startswith("command: there is no program 'missing' in the PATH")


def test_a_program_that_comes_with_the_job_is_allowed_by_its_content_alone(tmp_path: Path) -> None:
    files = [{"name": "go", "content": CONTENT}]
    assert objection([f"sha256:{SHA256}"], ["./go"], files=files) == ""
    assert f"commands.allow does not name sha256:{SHA256}" in objection([str(tmp_path / "go")], ["./go"], files=files)


def test_a_file_of_the_party_lies_below_its_root_whatever_links_say(program: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "tool").symlink_to(program)
    (root / "own").write_text("x")
    rules = {"files_root": str(root)}
    assert objection([str(program)], [str(program)], rules, files=[{"name": "x", "path": "own"}]) == ""
    said = objection([str(program)], [str(program)], rules, files=[{"name": "x", "path": "tool"}])
    assert said == "files: x: 'tool' leads out of commands.files_root"
    said = objection([str(program)], [str(program)], files=[{"name": "x", "path": "own"}])
    assert said.startswith("files: x: commands.files_root is not set")


def test_a_file_of_the_party_is_there_when_the_job_is_submitted_and_what_the_job_says(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (root / "own").write_text(CONTENT)
    os.mkfifo(root / "pipe")

    def said_of(path: str, **more: Any) -> str:
        files = [{"name": "x", "path": path, **more}]
        return objection([str(program)], [str(program)], {"files_root": str(root)}, files=files)

    assert said_of("own") == said_of("own", sha256=SHA256) == ""
    assert said_of("a/b") == (
        "files: x: a/b below commands.files_root: No such file or directory: it has to be there before the job is "
        "submitted"
    )
    unreadable = "below commands.files_root: is not a file that this party's server can read"
    for path in ("folder", "pipe"):
        assert said_of(path) == f"files: x: {path} {unreadable}"
    other = hashlib.sha256(b"").hexdigest()
    assert said_of("own", sha256=other) == f"files: x: sha256 of own is not {other} at this party; it is {SHA256}"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert said_of("own") == f"files: x: own {unreadable}"


def test_a_file_that_stays_what_it_was_is_read_once(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(programs, "digest_of", lambda path: read.append(path) or SHA256)
    program_policy = ConfiguredProgramPolicy(
        ProgramRules(enabled=True, allow=(str(program),), files_root=str(program.parent))
    )
    files = [{"name": "x", "path": "tool", "sha256": SHA256}]
    wanted = read_program({"command": [str(program)], "files": files})
    assert [program_policy.objection(wanted, "9999") for _ in range(3)] == [""] * 3
    assert read == [str(program)]


# ---------------------------------------------------------------------- secrets


TEXT = "s3cr\u00e9t with blanks"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text(f"{TEXT}\n")
    path.chmod(0o600)
    return path


def objection_to_secret(program: Path, path: Path, initiators: tuple[str, ...] = ("9999",), name: str = "KEY") -> str:
    rules = {"secrets": {"KEY": Secret(str(path), initiators)}}
    return objection([str(program)], [str(program)], rules, of="9999", secrets=[name])


def test_a_secret_is_offered_to_some_initiators_and_to_the_party_itself(program: Path, secret: Path) -> None:
    assert objection_to_secret(program, secret) == ""
    said = "secrets: commands.secrets.{} is not there for jobs of party 9999"
    assert objection_to_secret(program, secret, ()) == said.format("KEY")
    assert objection_to_secret(program, secret, name="OTHER") == said.format("OTHER")
    policy = ProgramRules(secrets={"KEY": Secret(str(secret))})
    assert [read_secret("KEY", policy, initiator, "10000") for initiator in ("10000", "0")] == [TEXT, TEXT]


def test_a_secret_that_others_might_read_is_none(program: Path, secret: Path, tmp_path: Path) -> None:
    for mode in (0o640, 0o604, 0o610):
        secret.chmod(mode)
        assert "KEY: is not a file of mode 0600" in objection_to_secret(program, secret)
    folder, fifo = tmp_path / "folder", tmp_path / "fifo"
    folder.mkdir(0o700)
    os.mkfifo(fifo, 0o600)
    assert objection_to_secret(program, folder).endswith("KEY: its file cannot be read at this party: Is a directory")
    assert objection_to_secret(program, fifo).endswith("its file cannot be read at this party: Not a regular file")
    said = objection_to_secret(program, tmp_path / "gone")
    assert said == "secrets: commands.secrets.KEY: its file cannot be read at this party: No such file or directory"


@pytest.mark.parametrize("content", [b"a\0b", b"x" * 65_537])
def test_a_secret_is_a_text_of_a_variable(program: Path, secret: Path, content: bytes) -> None:
    secret.write_bytes(content)
    said = objection_to_secret(program, secret)
    assert "KEY: is not a text of at most 65536 bytes" in said
    assert content.decode()[:50] not in said


# ---------------------------------------------------------------------- what is made ready


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a worker."""
    found = tmp_path / "worker"
    (found / "work").mkdir(parents=True)
    return found


@pytest.fixture(autouse=True)
def same_core_limit() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    yield
    resource.setrlimit(resource.RLIMIT_CORE, limits)


def ready(folder: Path, program: Path, policy: dict[str, Any] | None = None, **fields: Any) -> Ready:
    rules = ProgramRules(**{"enabled": True, "allow": (str(program),), **(policy or {})})
    order = Order(**{"argv": (str(program),), "env": {"A": "b"}, "policy": rules, **fields})
    (folder / ORDER).write_text(order.to_json())
    assert Order.read(folder) == order
    return prepare(order, folder)


def test_files_are_copies_that_nobody_writes_and_what_is_in_them_is_kept(
    folder: Path, program: Path, tmp_path: Path
) -> None:
    (tmp_path / "own").write_text("of the party")
    files = (InputFile("sent", content="AAE=", is_base64=True), InputFile("named", path="own"))
    ready(folder, program, {"files_root": str(tmp_path)}, files=files)
    work = folder / "work"
    assert ((work / "sent").read_bytes(), (work / "named").read_text()) == (b"\0\1", "of the party")
    assert {stat.S_IMODE(path.stat().st_mode) for path in work.iterdir()} == {0o400}
    assert json.loads((folder / "files.json").read_text())["named"] == {
        "bytes": 12, "sha256": hashlib.sha256(b"of the party").hexdigest(), "path": "own",
    }  # fmt: skip


def test_a_worker_looks_again_at_what_was_granted(folder: Path, program: Path) -> None:
    named, sent = InputFile("go", path="tool"), InputFile("go", content=CONTENT)
    rules = {"files_root": str(program.parent), "allow": (f"sha256:{SHA256}",)}
    ways: list[dict[str, Any]] = [{}, *({"argv": ("./go",), "files": (file,)} for file in (named, sent))]
    for way in ways:
        assert ready(folder, program, rules, granted=(f"sha256:{SHA256}",), **way)
        for file in (folder / "work").iterdir():
            file.unlink()
        with pytest.raises(NotAllowed, match="was not granted to the initiator"):
            ready(folder, program, rules, granted=(), initiator="9999", own="10000", **way)
        for file in (folder / "work").iterdir():
            file.unlink()


def test_the_program_may_be_one_of_them_and_is_looked_at_as_it_was_copied(folder: Path, program: Path) -> None:
    file, rules = InputFile("go", path="tool"), {"files_root": str(program.parent)}
    found = ready(folder, program, rules, argv=("./go", "x"), files=(file,))
    assert (found.program, found.argv, os.access(found.program, os.X_OK)) == (folder / "work/go", ("./go", "x"), True)
    (folder / "work/go").unlink()
    by_content = {**rules, "allow": (f"sha256:{SHA256}",)}
    assert ready(folder, program, by_content, argv=("./go",), files=(file,)).program == folder / "work/go"
    (folder / "work/go").unlink()
    program.write_text("changed since the submit")
    with pytest.raises(NotAllowed, match=r"commands.allow names neither"):
        ready(folder, program, by_content, argv=("./go",), files=(file,))


def test_a_file_that_is_not_what_the_job_says_is_refused(folder: Path, program: Path) -> None:
    file = InputFile("x", path="tool", sha256="0" * 64)
    with pytest.raises(NotAllowed, match=f"files: x: sha256 is not {'0' * 64} at this party"):
        ready(folder, program, {"files_root": str(program.parent)}, files=(file,))


def test_a_file_that_is_not_there_is_called_as_the_job_calls_it(folder: Path, program: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        ready(folder, program, {"files_root": str(tmp_path)}, files=(InputFile("x", path="a/b"),))
    assert str(caught.value) == "files: x: a/b below commands.files_root: No such file or directory"


def test_a_volume_is_the_partys_folder_or_fresh_space_that_goes(folder: Path, program: Path, tmp_path: Path) -> None:
    found = ready(folder, program, {"volumes": {"data": str(tmp_path)}}, volumes=("data", "my-own"))
    fresh = Path(found.env["FATE_FLOW_VOLUME_MY_OWN"])
    assert (found.env["FATE_FLOW_VOLUME_DATA"], fresh.is_dir()) == (str(tmp_path), True)
    clear_scratch(folder)
    assert (fresh.exists(), tmp_path.exists()) == (False, True)


def test_a_volume_that_the_party_has_lost_is_named(folder: Path, program: Path, tmp_path: Path) -> None:
    with pytest.raises(NotADirectoryError, match=r"commands.volumes.data is no folder"):
        ready(folder, program, {"volumes": {"data": str(tmp_path / "gone")}}, volumes=("data",))


def test_of_the_servers_environment_little_is_left(
    folder: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "x")
    monkeypatch.setenv("HOME", "/home/x")
    found = ready(folder, program)
    assert (found.env["A"], found.env["HOME"], "DATABASE_PASSWORD" in found.env) == ("b", "/home/x", False)


def test_a_secret_is_in_the_environment_of_the_program_and_in_no_file(
    folder: Path, program: Path, secret: Path
) -> None:
    rules, wanted = {"secrets": {"KEY": Secret(str(secret), ("9999",))}}, {"secrets": ("KEY",), "initiator": "9999"}
    found = ready(folder, program, rules, **wanted)
    assert found.env["FATE_FLOW_SECRET_KEY"] == found.env["YT_SECURE_VAULT_KEY"] == TEXT
    assert TEXT not in repr(found)
    assert not any(TEXT in path.read_text() for path in folder.rglob("*") if path.is_file())
    with pytest.raises(NotAllowed, match=r"commands.secrets.KEY is not there for jobs of party 10001"):
        ready(folder, program, rules, **wanted | {"initiator": "10001"})


@pytest.mark.parametrize("is_wanted", [True, False])
def test_core_dumps_are_kept_when_asked(folder: Path, program: Path, is_wanted: bool) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    ready(folder, program, core_dumps=is_wanted)
    assert resource.getrlimit(resource.RLIMIT_CORE) == (hard if is_wanted else 0, hard)


# ---------------------------------------------------------------------- what is kept of what it leaves


def collected(folder: Path, **output: Any) -> Any:
    target = folder / "outputs" / "x"
    uri = format_uri(folder, "ns", "x") if output.get("kind") == "table" else f"file://{target}"
    task = TaskContext(
        "1_a", "0", "a", "command", Party("guest", "1"), inputs={"work": (f"file://{folder}/work",)},
        outputs={"x": uri}, parameters={"command": ["x"], "outputs": [{"name": "x", **output}]},
    )  # fmt: skip
    return collector.run(task)


def test_a_file_is_kept_with_its_size_and_digest(folder: Path) -> None:
    (folder / "work" / "model").write_text(CONTENT)
    made = collected(folder, path="model")
    assert made.files == {"x": {"bytes": len(CONTENT), "sha256": SHA256}}
    assert (folder / "outputs" / "x").read_text() == CONTENT


def test_a_csv_becomes_a_table(folder: Path) -> None:
    (folder / "work" / "t.csv").write_text("id,y\na,1\nb,2\n")
    made = collected(folder, path="t.csv", kind="table")
    with Table(made.tables["x"]) as table:
        assert (list(table), table.made_by) == ([("a", "1"), ("b", "2")], "1_a")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("PRIVATE;y\n1;2\n", "line 1: there is one column"), ("id,y\na,PRIVATE,b\n", "line 2: 3 fields"),
        ("PRIVATE,PRIVATE\n", "line 1: column 2 has"), ("id\nPRIVATE\na\nPRIVATE\n", "lines 2 and 4: both have"),
    ],
)
def test_partners_learn_nothing_from_a_csv_that_is_no_table(folder: Path, content: str, text: str) -> None:
    (folder / "work" / "t.csv").write_text(content)
    with pytest.raises(ComponentError, match=f"^outputs: x: {text}") as refused:
        collected(folder, path="t.csv", kind="table")
    assert "PRIVATE" not in refused.value.message


@pytest.mark.parametrize(
    ("path", "text"),
    [("missing", "outputs: x: rank 0 has left no file 'missing'"), ("out", "outputs: x: 'out' leads out of")],
)
def test_what_is_not_there_or_not_the_programs_own_is_named(folder: Path, path: str, text: str) -> None:
    (folder / "work" / "out").symlink_to("/etc/passwd")
    with pytest.raises(ComponentError, match=text):
        collected(folder, path=path)
