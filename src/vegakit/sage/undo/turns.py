"""Turns of a coding session: what each of them changed, and undo, redo and rewind of them.

    with open_undo(workspace, state_folder) as undo:
        number = undo.begin("fix the parser")
        ...                                   # edit tools, shell commands, MCP tools
        undo.end(number)
        undo.undo()                           # or undo.undo(3), and undo.redo()

All that changes within a turn is the turn's. A session in which a person edits beside the agent
says `begin(label, whole=False)` and puts `window()` around each tool that changes files: what else
changed is the person's, by the time of the change, and is kept. So is what changed between turns. A
save of the same file while a command runs cannot be told from the command's own.

An undo is a turn, too: its plan is written before the first file is touched, so that a process that
is killed in the middle leaves something that the next one finishes.

| state     | of a turn                    | of an undo                           |
|-----------|------------------------------|--------------------------------------|
| `open`    | runs, or was cut off         |                                      |
| `planned` |                              | its plan is written, not yet done    |
| `done`    | can be undone                | can be redone, until the next change |
| `undone`  | an undo took it back         | a redo took it back                  |
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any, Self

from vegakit.errors import UserError
from vegakit.sage.undo.changes import (
    DOUBTFUL,
    ChangeTable,
    check_redo,
    chosen_turns,
    named,
    names_of,
    once_each,
    pack,
    shown,
    told_by,
    unpack,
)
from vegakit.sage.undo.records import (
    Change,
    Contents,
    PathEntry,
    Restored,
    TurnChanges,
    UndoLimits,
    UndoneTurns,
    UndoTurn,
    check_places,
    open_database,
    outer_git,
    parent_of,
)
from vegakit.sage.undo.restoring import OnConflict, Restorer, UndoPlan, check_git_locks
from vegakit.sage.undo.scanning import Scanner
from vegakit.sage.undo.windows import (
    SLACK_NS,
    Heartbeat,
    OpenTurn,
    Reach,
    ToolWindow,
    clean_paths,
    protected_part,
    windows_beside,
)
from vegakit.tools import folder_mark

_FULL_EVERY = 20
"""Turns after which every stamp is compared, whatever inotify said."""


def open_undo(
    workspace: Path, state_folder: Path, limits: UndoLimits | None = None, *, hints: bool = True
) -> "UndoStore":
    """Open the turns of a workspace, which are kept below the user's own state. One process at a
    time has them open."""
    return UndoStore(workspace, state_folder, limits or UndoLimits(), hints=hints)


def undo_folder(workspace: Path, state_folder: Path) -> Path:
    """Return where the turns of a workspace are kept."""
    digest = hashlib.sha256(os.fsencode(workspace.resolve())).hexdigest()
    return state_folder.resolve() / "undo" / digest[:24]


class UndoStore:
    """The turns of one workspace. Its methods may be called from any thread, one at a time runs."""

    def __init__(
        self, workspace: Path, state_folder: Path, limits: UndoLimits, *, hints: bool
    ) -> None:
        root, state = workspace.resolve(), state_folder.resolve()
        check_places(root, state)
        self.folder = undo_folder(root, state)
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.folder.chmod(0o700)
        self._heartbeat = Heartbeat(self.folder / "alive")
        self._lock, self._root, self._root_mark = RLock(), root, folder_mark(root)
        self._limits = limits
        self._db = open_database(self.folder / "undo.db", root)
        self._changes = ChangeTable(self._db)
        self._contents = Contents(self._db, self.folder, limits)
        self._scanner = Scanner(os.fsencode(root), self._db, self._contents, limits, hints=hints)
        self._restorer = Restorer(self._scanner, self._contents)
        self._open: OpenTurn | None = None
        self._read_words: list[Path] = []
        self._since_full = 0
        self._ready = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give everything back. A turn that is open is ended by who opens the store next."""
        with self._lock:
            self._scanner.close()
            self._db.close()

    # Turns.

    def record(self, *, full: bool = False) -> Restored | None:
        """Record the workspace as it is, for the first time or after a while; the first turn waits
        for it. `full` trusts no hint. Return what was finished of an undo that was cut off."""
        with self._lock:
            return self._catch_up(full=full or not self._ready)

    def begin(self, label: str, *, whole: bool = True, key: str = "") -> int:
        """Begin a turn, and return its number. What changed before is the person's. `key` names it
        elsewhere; turns with one key are undone together."""
        with self._lock:
            if self._open is not None:
                raise UserError(f"turn {self._open.number} is open; end it before the next begins")
            self._since_full += 1
            self._catch_up(full=not self._ready or self._since_full >= _FULL_EVERY)
            git = outer_git(self._root)
            turn = OpenTurn({"key": key, "lasting": {}, "git": git, "root": self._root_mark})
            if whole:
                began = time.time_ns() - SLACK_NS
                turn.windows.append(ToolWindow(began, reach=Reach.WHOLE))
            turn.number = self._add_turn("agent", label, "open", turn.written())
            self._open = turn
            return turn.number

    def note(self, label: str, key: str) -> None:
        """Note a turn that could not change files, so that it is counted with those that did."""
        with self._lock:
            self._add_turn("agent", label, "done", {"key": key})

    def note_lasting(self, call: str, what: str) -> None:
        """Note what a call of the open turn does that nobody can take back; with nothing, that it
        was not done."""
        with self._lock:
            turn = self._the_open()
            turn.facts["lasting"][call] = what
            self._write_facts(turn)

    def end(self, turn: int) -> TurnChanges:
        """End a turn, and return what it changed."""
        with self._lock:
            return self._end(self._the_open(turn))

    @contextmanager
    def window(self, paths: Sequence[str] = (), reach: Reach = Reach.ANY) -> Generator[None]:
        """Hold a window open in which changes are the turn's: while a command or an MCP tool runs.
        Several may be open at once. `paths` are those that the tool names, if it does; if not,
        `reach` says where it can write."""
        with self._lock:
            turn = self._the_open()
            if all(each.ended or each.reach is Reach.JOB for each in turn.windows):
                # What others did until now, to a file that this tool may change next, is theirs;
                # later one change of it could not be told from the other.
                with self._transaction():
                    self._settle(turn)
            span = ToolWindow(time.time_ns() - SLACK_NS, 0, clean_paths(paths), reach)
            turn.windows.append(span)
            self._write_facts(turn)
        is_over = self._heartbeat.start()
        try:
            yield
        finally:
            is_over.set()
            with self._lock:
                span.ended = time.time_ns()
                if self._open is turn:
                    # At once: later nobody could tell when something was deleted, as that is known
                    # by the stamp of its folder, which whoever writes there next moves.
                    with self._transaction():
                        self._settle(turn)
                        self._write_facts(turn)

    def turns(self) -> list[UndoTurn]:
        """Return the turns that are kept, the latest first."""
        names = self._changes.names
        with self._lock:
            rows = self._db.execute(
                "select id, label, at_ms, state, (select count(distinct path)"
                " from change where turn=id), facts"
                " from turn where kind='agent' order by id desc"
            )
            return [
                UndoTurn(n, label, at_ms, state, paths, *told_by(json.loads(facts)), names(n))
                for n, label, at_ms, state, paths, facts in rows.fetchall()
            ]

    def undone(self) -> list[UndoneTurns]:
        """Return what undos took back, the first first. One that was cut off is finished before."""
        with self._lock:
            if self._db.execute("select 1 from turn where state='planned'").fetchone():
                self._catch_up(full=True)
            rows = self._db.execute(
                "select at_ms, state, facts from turn where kind='undo' order by id"
            )
            return [
                UndoneTurns(at_ms, state == "done", self._keys(_of(facts)))
                for at_ms, state, facts in rows.fetchall()
            ]

    # Undo.

    def undo(
        self,
        count: int = 1,
        on_conflict: OnConflict = "keep",
        *,
        to: int | None = None,
        replaced: bool = False,
        among: Callable[[UndoTurn], bool] | None = None,
    ) -> Restored:
        """Take back the last turns that stand, all at once; with `to` all after that one; `among`
        says of which. What somebody else changed since is kept and named, unless `on_conflict` says
        to restore it; a redo would bring it back. Turns of a folder whose place another has taken
        are refused unless `replaced` says so."""
        with self._lock:
            self._catch_up(full=True)
            self._none_open()
            chosen = chosen_turns(self.turns(), count, to, among)
            return self._revert("undo", chosen, on_conflict, replaced=replaced)

    def redo(
        self,
        on_conflict: OnConflict = "keep",
        *,
        replaced: bool = False,
        among: Callable[[UndoTurn], bool] | None = None,
    ) -> Restored:
        """Take back the last undo, or the last of turns `among` these."""
        with self._lock:
            self._catch_up(full=True)
            self._none_open()
            undos = self._db.execute(
                "select id, facts from turn where kind='undo' and state='done' order by id desc"
            )
            for number, facts in undos.fetchall():
                own = [among is None or among(one) for one in self._agent_turns(_of(facts))]
                if any(own):
                    check_redo(all(own), self._went_on(number, among))
                    return self._revert("redo", [number], on_conflict, replaced=replaced)
            raise UserError("there is nothing to redo: no undo stands")

    def _went_on(self, undo: int, among: Callable[[UndoTurn], bool] | None) -> bool:
        """Say whether the agent went on since: a turn of a session counts although it changed
        nothing, as the conversation did."""
        later = [turn for turn in self.turns() if turn.number > undo and (turn.paths or turn.key)]
        return any(among is None or among(turn) for turn in later)

    def _revert(
        self, kind: str, chosen: Sequence[int], on_conflict: OnConflict, *, replaced: bool
    ) -> Restored:
        if not replaced and not all(self._is_here(self._facts(each)) for each in chosen):
            raise UserError(
                f"{self._root} is not the folder that these turns ran in: that one was deleted or "
                "moved away, and another has its place, into which undo would put old files. To do "
                "it all the same, add: --replaced"
            )
        rows = self._rows(chosen, force=on_conflict == "restore")
        plan = UndoPlan(self._scanner, self._contents, rows, on_conflict)
        check_git_locks(self._scanner.root, plan.goal)
        if on_conflict == "keep":
            for whose, why in DOUBTFUL.items():
                for path in self._by(chosen, whose) - plan.goal.keys():
                    plan.kept.setdefault(os.fsdecode(path), why)
        for folder in self._moved_git(chosen):
            plan.not_restored[folder] = (
                "git's own folder lies outside of the workspace: commits and index are as they are"
            )
        exact = not (plan.kept or plan.not_restored)
        facts = {
            "of": [*chosen],
            "exact": exact,
            "kept": plan.kept,
            "not_restored": plan.not_restored,
        }
        # Only this is synced: files change next, and the plan must not be lost before them.
        self._db.execute("pragma synchronous=full")
        with self._transaction():
            number = self._add_turn(kind, "", "planned", facts)
            rows = [(number, path, pack(target)) for path, target in plan.goal.items()]
            self._db.executemany("insert into plan(turn, path, target) values(?,?,?)", rows)
        self._db.execute("pragma synchronous=normal")
        return self._carry_out(number)

    def _rows(
        self, chosen: Sequence[int], *, force: bool
    ) -> Iterator[tuple[bytes, PathEntry | None, PathEntry | None, bool]]:
        """Yield changes since the first of these turns, with whether they are of these turns; what
        undos and turns that were undone changed cancels out. Turns in between that stay, as those
        of another session, are like edits of a person."""
        rows = self._db.execute(
            "select turn, path, before, after, by, kind='agent' and state='done' from change"
            " join turn on id=turn where turn>=? order by turn, step",
            (min(chosen),),
        )
        mine = {"turn", "command", "undo", "redo", *(DOUBTFUL if force else ())}
        for turn, path, before, after, by, stands in rows:
            ours = turn in chosen and by in mine
            if ours or stands or by in ("person", "other", *DOUBTFUL):
                yield path, unpack(before), unpack(after), ours

    def _by(self, chosen: Sequence[int], whose: str) -> set[bytes]:
        """Return the paths of these turns whose change is somebody's, such as a `command`'s."""
        marks = ",".join("?" * len(chosen))
        rows = self._db.execute(
            f"select path from change where by=? and turn in ({marks})",  # noqa: S608
            (whose, *chosen),
        )
        return {path for (path,) in rows}

    def _facts(self, number: int) -> dict[str, Any]:
        row = self._db.execute("select facts from turn where id=?", (number,)).fetchone()
        return json.loads(row[0])

    def _is_here(self, facts: dict[str, Any]) -> bool:
        """Say whether a turn ran in the folder that is here now, as far as that was noted."""
        return facts.get("root", self._root_mark) == self._root_mark

    def _carry_out(self, number: int) -> Restored:
        """Do what a plan says; after a kill, again."""
        kind, text = self._db.execute(
            "select kind, facts from turn where id=?", (number,)
        ).fetchone()
        facts = json.loads(text)
        self._scanner.index()
        goal: dict[bytes, PathEntry | None] = {}
        in_place = set[bytes]()
        rows = self._db.execute("select path, target, in_place from plan where turn=?", (number,))
        for path, target, writing in rows:
            goal[path] = unpack(target)
            if writing:
                in_place.add(path)
        kept = self._restorer.strangers(goal, frozenset(in_place))
        goal = {path: target for path, target in goal.items() if path not in kept}
        failed = self._restorer.restore(
            goal,
            exact=facts["exact"] and not kept,
            before_in_place=lambda paths: self._mark(number, paths),
        )
        with self._transaction():
            changes = self._scanner.scan()
            done = {path: change for path, change in changes.items() if path in goal}
            self._changes.add(number, {path: (change, kind) for path, change in done.items()})
            rest = {path: change for path, change in changes.items() if path not in goal}
            self._add_person(rest)
            self._db.execute("delete from plan where turn=?", (number,))
            self._db.execute("update turn set state='done' where id=?", (number,))
            for turn in facts["of"]:
                self._db.execute("update turn set state='undone' where id=?", (turn,))
                if kind == "redo":
                    self._again(turn)
        restored = [path for path in done if path not in failed]
        doubtful = self._by(facts["of"], "command") if kind == "undo" else set[bytes]()
        return Restored(
            number,
            tuple(each.label for each in once_each(self._agent_turns(facts["of"]))),
            names_of(restored),
            named({**facts["kept"], **shown(kept)}.items()),
            named({**facts["not_restored"], **shown(failed)}.items()),
            tuple(what for each in self._agent_turns(facts["of"]) for what in each.lasting),
            names_of(doubtful.intersection(restored)),
        )

    def _again(self, undo: int) -> None:
        """The turns that an undo took back stand again."""
        for turn in self._facts(undo)["of"]:
            self._db.execute("update turn set state='done' where id=?", (turn,))

    def _agent_turns(self, numbers: Sequence[int]) -> Iterator[UndoTurn]:
        """Yield the turns of the agent among these and among what undos of these took back."""
        for number in numbers:
            row = self._db.execute(
                "select kind, label, at_ms, state, facts from turn where id=?", (number,)
            ).fetchone()
            if row is None:
                continue
            kind, label, at_ms, state, text = row
            facts = json.loads(text)
            if kind == "undo":
                yield from self._agent_turns(facts["of"])
            else:
                yield UndoTurn(number, label, at_ms, state, 0, *told_by(facts))

    def _moved_git(self, numbers: Sequence[int]) -> Iterator[str]:
        """Yield git folders outside of the workspace whose branch or index these turns moved."""
        for number in {turn.number for turn in self._agent_turns(numbers)}:
            if folder := self._facts(number).get("git_moved"):
                yield folder

    def _keys(self, numbers: Sequence[int]) -> tuple[str, ...]:
        return tuple(turn.key for turn in self._agent_turns(numbers) if turn.key)

    def _mark(self, number: int, paths: Iterable[bytes]) -> None:
        with self._transaction():
            rows = [(number, path) for path in paths]
            self._db.executemany("update plan set in_place=1 where turn=? and path=?", rows)

    # What turns share.

    def _catch_up(self, *, full: bool) -> Restored | None:
        """Finish what was cut off, and record what changed since as the person's."""
        finished = None
        if not self._ready:
            self._contents.measure()
            planned = self._db.execute("select id from turn where state='planned'").fetchone()
            finished = self._go_on(planned[0]) if planned else None
            row = self._db.execute("select id, facts from turn where state='open'").fetchone()
            if row:
                # What a person did since its process was killed is not the turn's.
                turn, ended = OpenTurn(json.loads(row[1]), row[0]), self._heartbeat.last_ns()
                cut_ns = None
                for span in turn.windows:
                    if not span.ended:
                        span.ended = cut_ns = max(ended, span.began)
                self._end(turn, cut_ns)
            self._ready = True
        if self._open is None:
            with self._transaction():
                first = not self._scanner.has_baseline()
                changes = self._scanner.scan(full=full)
                if not first:
                    self._add_person(changes)
            if full:
                self._since_full = 0
        return finished

    def _go_on(self, number: int) -> Restored | None:
        """Finish an undo that was cut off, or drop it if its folder is gone."""
        if self._is_here(self._facts(number)):
            return self._carry_out(number)
        with self._transaction():
            self._db.execute("delete from plan where turn=?", (number,))
            self._db.execute("delete from turn where id=?", (number,))
        return None

    def _end(self, turn: OpenTurn, cut_ns: int | None = None) -> TurnChanges:
        for span in turn.windows:
            span.ended = span.ended or time.time_ns()
        # What another folder in the place of its own holds, and lacks, is not of the turn.
        here = self._is_here(turn.facts)
        if here and turn.facts.get("git") and outer_git(self._root) != tuple(turn.facts["git"]):
            turn.facts["git_moved"] = turn.facts["git"][0]
        with self._transaction():
            if here:
                self._settle(turn, cut_ns)
            self._write_facts(turn)
            changes = self._changes.finish(turn.number)
            self._db.execute("update turn set state='done' where id=?", (turn.number,))
        self._open = None
        self._trim()
        return changes

    def _settle(self, turn: OpenTurn, cut_ns: int | None = None) -> None:
        """Record what changed since it was last looked at, and whose that is. `cut_ns` is when a
        tool was cut off by a kill."""
        rows: dict[bytes, tuple[Change, str]] = {}
        looked, changes = time.time_ns(), self._scanner.scan()
        # Read after the scan: a window is told of before its first change, so of all that was seen
        # there is word by now.
        beside = windows_beside(self.folder)
        for path, change in changes.items():
            after = change[1]
            # Objects of git always count: keeping them moved their stamps, and they go only with
            # their repository.
            guarded = self._guarded_since(turn, path, changes)
            is_object = after is not None and after.kind == "g"
            at = self._scanner.moved_at(path)
            if cut_ns is not None and after is None:
                # Dated by its folder, where a person may have written since. What the tool removed
                # must come back, and what a person did can be removed again.
                at = min(at, cut_ns)
            if is_object and turn.may_write(path, guarded=guarded):
                whose = "turn"
            else:
                whose = turn.owner(path, at, beside.values(), guarded=guarded)
            if whose == "job" and after is None:
                whose = "command"  # must come back; what a person removed can be removed again
            rows[path] = (change, whose)
        self._changes.add(turn.number, rows)
        # Of these all is recorded now, once it is committed.
        self._read_words += [file for file, window in beside.items() if window.ended < looked]

    def _guarded_since(
        self, turn: OpenTurn, path: bytes, changes: dict[bytes, Change]
    ) -> int | None:
        """Return since when commands find a path guarded: it is what was there, in a folder that is
        still the same. What was not there a command may have made, and goes on to change although a
        look of another tool has seen it meanwhile."""
        part = protected_part(path)
        if not part:
            return None
        before = changes[part][0] if part in changes else self._scanner.entry(part)
        if before is None:
            turn.made.setdefault(os.fsdecode(part), self._scanner.moved_at(part))
        if before is None or not self._scanner.stands(parent_of(part)):
            return None
        return turn.made.get(os.fsdecode(part), 0)

    def _trim(self) -> None:
        """Forget the oldest turns when there are too many, or when they take too much room."""
        row = self._db.execute("select count(*), min(id), max(id) from turn").fetchone()
        count, first, last = row
        full = not self._contents.fits(0) or self._contents.used > self._limits.store_bytes * 0.9
        if not count or (count <= self._limits.turns and not full):
            return
        oldest = last - self._limits.turns // 2 if count > self._limits.turns else first
        while True:
            with self._transaction():
                self._db.execute("delete from change where turn<=? and turn<?", (oldest, last))
                self._db.execute("delete from turn where id<=? and id<?", (oldest, last))
            self._contents.sweep(self._used())
            oldest += max(1, (last - first) // 8)
            if self._contents.used <= self._limits.store_bytes * 0.8 or oldest >= last:
                return

    def _used(self) -> set[bytes]:
        used = {
            known.entry.digest for _, names in self._scanner.every() for known in names.values()
        }
        for pair in self._db.execute("select before, after from change"):
            used.update(unpacked.digest for each in pair if (unpacked := unpack(each)))
        return used

    def _add_turn(self, kind: str, label: str, state: str, facts: dict[str, Any]) -> int:
        shown = label.encode("utf-8", "replace").decode()
        noted = json.dumps({"root": self._root_mark, **facts})
        row = (kind, shown, time.time_ns() // 1_000_000, state, noted)
        sql = "insert into turn(kind, label, at_ms, state, facts) values(?,?,?,?,?)"
        return self._db.execute(sql, row).lastrowid or 0

    def _add_person(self, changes: dict[bytes, Change]) -> None:
        if changes:
            number = self._add_turn("person", "", "done", {})
            self._changes.add(number, {path: (one, "person") for path, one in changes.items()})

    def _write_facts(self, turn: OpenTurn) -> None:
        row = (json.dumps(turn.written()), turn.number)
        self._db.execute("update turn set facts=? where id=?", row)

    def _the_open(self, number: int | None = None) -> OpenTurn:
        if self._open is None or number not in (None, self._open.number):
            raise UserError("this turn is not open; begin one first")
        return self._open

    def _none_open(self) -> None:
        if self._open is not None:
            raise UserError("a turn is running here; wait until it ends, then undo it")

    @contextmanager
    def _transaction(self) -> Generator[None]:
        self._db.execute("begin immediate")
        try:
            yield
            self._db.execute("commit")
        except BaseException:
            self._db.execute("rollback")
            self._scanner.forget()
            self._read_words.clear()
            raise
        while self._read_words:
            self._read_words.pop().unlink(missing_ok=True)


def _of(facts: str) -> list[int]:
    """Return the turns that an undo took back."""
    return json.loads(facts)["of"]
