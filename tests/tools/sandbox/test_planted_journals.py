"""Journals, questions, audits and links that a command plants where a person's program keeps them.

What is forged is made by a real runtime of somebody else, brought into the workspace by a sandboxed
command, and found there by the person's next run.
"""

import base64
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.tools.sandbox import person
from tests.tools.sandbox.stage import PYTHON, Box, boxed, tree_of
from vegakit.errors import StoreError
from vegakit.ids import ProgramId
from vegakit.ports import AuditEntry, RunRecord
from vegakit.store import SqliteAudit, SqliteJournal, list_runs, verify_audit

HERE = Path(__file__).parent
WRITE = "import base64,json,sys\nfor n, b in json.load(sys.stdin).items():"
LOGS = ("-wal", "-journal")


def forge(who: Path, folder: Path, *words: str) -> dict[str, bytes]:
    """By their own program and with their own secret; what they leave when they die."""
    folder.mkdir(parents=True)
    env = {"PATH": "/usr/bin:/bin", "VEGA_DATA_DIR": str(who), "HOME": str(who)}
    env |= {"PYTHONPATH": ":".join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, str(HERE / "person.py"), *words]
    ran = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 9, ran.stderr
    return tree_of(folder)


@pytest.fixture(scope="module", params=[("answer", "FORGED"), ("approval", "99999")])
def forged(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str, Path, dict[str, bytes]]:
    """The kind, what is forged, who did it, and the files."""
    kind, wanted = request.param
    folder = tmp_path_factory.mktemp("forge")
    files = forge(folder / "attacker", folder / "project", kind, "run.db", wanted)
    return kind, wanted, folder / "attacker", files


class Person:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    async def runs(self, kind: str, journal: str, folder: Path, *, who: Path) -> str:
        """What it says, or why it does not run."""
        person.SAID.clear()
        who.mkdir(mode=0o700, exist_ok=True)  # noqa: ASYNC240
        for name in ("VEGA_DATA_DIR", "HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
            self._monkeypatch.setenv(name, str(who))
        self._monkeypatch.chdir(folder)
        try:
            await person.PROGRAMS[kind](journal, "")
        except StoreError as error:
            person.SAID.append(str(error))
        return "\n".join(person.SAID)


@pytest.fixture
def a_person(monkeypatch: pytest.MonkeyPatch) -> Person:
    return Person(monkeypatch)


async def plant(box: Box, files: dict[str, bytes]) -> str:
    said = json.dumps({name: base64.b64encode(held).decode() for name, held in files.items()})
    script = f"{WRITE} open(n, 'wb').write(base64.b64decode(b))"
    ran = await box.sandbox.run([PYTHON, "-I", "-c", script], owner="test", said=said.encode())
    return ran.stderr


@pytest.mark.parametrize("journal", ["default", "run.db", "mine.db"])
async def test_a_planted_journal_answers_and_approves_nothing(
    forged: tuple[str, str, Path, dict[str, bytes]],
    journal: str,
    tmp_path: Path,
    a_person: Person,
) -> None:
    """Neither by default, nor where the person names a file in the workspace: that is refused."""
    kind, wanted, _, files = forged
    if journal != "default":
        files = {name.replace("run.db", journal): held for name, held in files.items()}
        assert {journal, f"{journal}-wal", f"{journal}.spool"} <= {*files}
    async with boxed(tmp_path) as box:
        assert await plant(box, files) == ""
        said = await a_person.runs(kind, journal, box.workspace, who=tmp_path / "person")
    assert wanted not in said
    if journal != "default":
        assert "written by somebody else" in said
    elif kind == "answer":
        assert said == "the real answer"


async def test_one_s_own_goes_on(
    forged: tuple[str, str, Path, dict[str, bytes]], tmp_path: Path, a_person: Person
) -> None:
    """The same files with the secret that they were sealed with: so the test above can fail."""
    kind, wanted, attacker, files = forged
    for name, held in files.items():
        (tmp_path / name).write_bytes(held)
    assert wanted in await a_person.runs(kind, "run.db", tmp_path, who=attacker)


async def _made(path: Path, name: str) -> None:
    """By a person, and closed."""
    if name == "audit.db":
        audit = SqliteAudit(path / name, str)
        for number in range(3):
            await audit.append(AuditEntry(number, "a", "call", "pay"))
        await audit.aclose()
    else:
        journal = SqliteJournal(path / name)
        await journal.begin(RunRecord(ProgramId("a"), 0))
        await journal.aclose()


def _emptying_log(path: Path, table: str, mode: str) -> bytes:
    """As a command computes it from a copy: brought in at the next opening, it takes all rows."""
    copy = path.with_name("copy.db")
    copy.write_bytes(path.read_bytes())
    with closing(sqlite3.connect(copy, isolation_level=None)) as file:
        file.execute("PRAGMA wal_autocheckpoint = 0")
        file.execute(f"PRAGMA journal_mode = {mode}")
        file.execute(f"DELETE FROM {table}")
        log = Path(f"{copy}-wal").read_bytes() if mode == "wal" else b""
    copy.unlink()
    return log


@pytest.mark.parametrize(("name", "table"), [("audit.db", "audit"), ("mine.db", "runs")])
async def test_a_planted_log_takes_nothing_from_a_file(
    name: str, table: str, tmp_path: Path
) -> None:
    """A file of the person, called as they like, that is read-only to commands: nor can they make
    what SQLite would bring into it."""
    async with boxed(tmp_path) as box:
        (box.workspace / "deep").mkdir()
        for folder in (box.workspace, box.workspace / "deep"):
            await _made(folder, name)
            log = _emptying_log(folder / name, table, "wal")
            assert len(log) > 4_000
            where = folder.relative_to(box.workspace)
            for ending in LOGS:
                assert "Read-only" in await plant(box, {f"{where}/{name}{ending}": log})
            assert "Read-only" in await plant(box, {f"{where}/{name}": b""})
            with closing(sqlite3.connect(folder / name)) as file:
                assert file.execute(f"SELECT count(*) FROM {table}").fetchone()[0] > 0
    if name == "audit.db":
        assert verify_audit(box.workspace / name).faults == ()
    else:
        assert len(list_runs(box.workspace / name)) == 1


async def test_such_a_log_would_take_them(tmp_path: Path) -> None:
    """So the test above can fail."""
    await _made(tmp_path, "audit.db")
    log = _emptying_log(tmp_path / "audit.db", "audit", "wal")
    (tmp_path / "audit.db-wal").write_bytes(log)
    with closing(sqlite3.connect(tmp_path / "audit.db")) as file:
        assert file.execute("SELECT count(*) FROM audit").fetchone() == (0,)


SEALED = "vega_seal('documents', 'kind', 'key', 'forged', 1)"
PUT = f"INSERT INTO documents VALUES ('kind', 'key', 1, 'forged', {SEALED})"
FORGE = (
    f"CREATE TRIGGER forge AFTER INSERT ON runs BEGIN {PUT}; END",
    f"CREATE VIEW forge AS SELECT {SEALED}",
)


@pytest.mark.parametrize("statement", FORGE)
async def test_statements_in_a_planted_file_do_not_seal(statement: str, tmp_path: Path) -> None:
    """They would run within ours, which can."""
    await _made(tmp_path, "run.db")
    with closing(sqlite3.connect(tmp_path / "run.db", isolation_level=None)) as file:
        file.execute("DELETE FROM runs")
        file.execute(statement)
    journal = SqliteJournal(tmp_path / "run.db")
    with pytest.raises(StoreError, match=r"it holds the (trigger|view) 'forge'"):
        await journal.begin(RunRecord(ProgramId("b"), 0))
    await journal.aclose()
    with pytest.raises(StoreError, match="it holds the"):
        list_runs(tmp_path / "run.db")


async def test_what_is_sealed_anew_was_ours_before(tmp_path: Path) -> None:
    """A forged row that was not committed yet must not be sealed by committing it."""
    await _made(tmp_path, "run.db")
    row = ("a.1", "a", "p", "CallModel", 0, "d", 1, "{}", "c", 0, b"forged")
    with closing(sqlite3.connect(tmp_path / "run.db", isolation_level=None)) as file:
        file.execute(f"INSERT INTO effects VALUES ({','.join('?' * 11)})", row)
    journal = SqliteJournal(tmp_path / "run.db", shared=True)
    await journal.begin(RunRecord(ProgramId("b"), 0))
    await journal.commit(row[0])  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="does not fit its seal"):
        await journal.find(row[0])  # type: ignore[arg-type]
    await journal.aclose()


LINKS = [
    *("run.db", "run.db.lock", "run.db.spool", "run.db-wal", "run.db-journal", "run.db-shm"),
    *("run.questions.db", "run.ledger.db", "audit.db", "audit.db-wal", "audit.db.lock"),
]


@pytest.mark.parametrize("exists", [True, False])
async def test_a_planted_link_is_not_written_through(
    exists: bool, tmp_path: Path, a_person: Person
) -> None:
    """Whatever it is called, whether the file outside exists or not."""
    changed: list[str] = []
    async with boxed(tmp_path) as box:
        victim = box.outside / ".bashrc"
        if exists:
            victim.write_text("export PRECIOUS=1\n")
        before = tree_of(box.outside)
        for link in LINKS:
            await box.sh(f"ln -s ../outside/.bashrc {link}")
            assert (box.workspace / link).is_symlink()
            for kind in ("answer", "audited"):
                await a_person.runs(kind, "run.db", box.workspace, who=tmp_path / "person")
            changed += [link] * (tree_of(box.outside) != before)
            for path in box.workspace.iterdir():
                path.unlink()
    assert changed == []


async def test_what_it_keeps_is_for_the_person_alone(tmp_path: Path, a_person: Person) -> None:
    """In folders that are, too."""
    who, project = tmp_path / "person", tmp_path / "project"
    project.mkdir()
    for kind, journal in (("answer", "run.db"), ("answer", "default"), ("audited", "")):
        await a_person.runs(kind, journal, project, who=who)
    kept = [*who.glob("**/*"), *project.glob("*.db*"), who]
    modes = {path.name: oct(path.stat().st_mode & 0o077) for path in kept}
    assert len(modes) > 4
    assert {*modes.values()} == {"0o0"}, modes
