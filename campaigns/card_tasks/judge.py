"""The judge: a program is checked and run by the command line, with default settings, in the world
of each case of its task; what it returned, wrote, posted and asked is compared with what it should.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from campaigns.card_tasks.case import PORT, Anything, Case, Fault, Seen, difference
from campaigns.card_tasks.world import Model, Server, files_in, lay_out
from vegakit.control import ControlClient
from vegakit.control.sockets import find
from vegakit.testing import Provider

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0
_GRACE_S = 10.0
_QUESTION = re.compile(r"^([0-9a-f]{12,})  \w+, asked by ")
_FENCE = "  | "
_ANSWER = "  $ vega answer "


class Verdict(Struct):
    """What became of a program. `kind` is the class of what went wrong, `why` the first of it."""

    checks: bool
    works: bool
    kind: str = ""
    why: str = ""
    code: str = ""


def judge(source: str, suffix: str, cases: Sequence[Case], port: int = PORT) -> Verdict:
    """Judge a program. With another port than that of the tasks, it is put in its place."""
    source = source.replace(str(PORT), str(port))
    verdict = Verdict(checks=True, works=True)
    for case in cases:
        with _stage(case, source, suffix, port) as stage:
            if case is cases[0] and (complaint := stage.check()):
                code, said = complaint
                return Verdict(False, False, "refused by check", said, code)
            kind, why = _first_fault(case, stage)
        if kind:
            return Verdict(True, False, kind, why)
    return verdict


# A stage: the folder of a project, a home, and the processes that were started there.


class _Stage:
    def __init__(self, folder: Path, case: Case, name: str, port: int) -> None:
        self.project, self.home = folder / "project", folder / "home"
        self.project.mkdir()
        self.home.mkdir()
        self.case, self.name, self.port = case, name, port
        self.server, self.model = Server(case), Model(case)
        self.provider = Provider(self.model.answer)
        self.questions: list[str] = []

    def check(self) -> tuple[str, str] | None:
        """Return the code and the words of the first error, if there is one."""
        done = subprocess.run(
            [*_vega(), "check", self.name, "--json"],
            cwd=self.project,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        try:
            found: list[dict[str, Any]] = json.loads(done.stdout)
        except ValueError:
            return "check-failed", _one_line(done.stdout + done.stderr)
        errors = [one for one in found if one["severity"] == "error"]
        if errors:
            one = errors[0]
            return one["code"], f"line {one['line']}: {one['message']}"
        return ("check-failed", _one_line(done.stderr)) if done.returncode else None

    def run(self) -> Seen | str:
        """Run the program to its end; answer what it asks as the person of the case does."""
        arguments = self._arguments()
        begins = time.monotonic()
        process = subprocess.Popen(
            [*_vega(), "run", "--json", self.name, *arguments],
            cwd=self.project,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stderr
        said = list[str]()
        reader = threading.Thread(target=self._listen, args=(process.stderr, said), daemon=True)
        reader.start()
        assert process.stdout
        patience_s = self.case.within_s + _GRACE_S
        guard = threading.Timer(patience_s, _end, [process])
        guard.start()
        with process:  # which closes its pipes and waits for its end
            out = process.stdout.read()
            reader.join()
        guard.cancel()
        seconds = time.monotonic() - begins
        if seconds >= patience_s:
            return f"it did not end in {patience_s:.0f} s"
        try:
            page = json.loads(out)
        except ValueError:
            return f"it printed no account: {_one_line(out + ''.join(said))}"
        return Seen(
            page,
            files_in(self.project),
            self.server.requests,
            self.questions,
            self.model.messages,
            self.model.conversations,
            seconds,
        )

    def _arguments(self) -> list[str]:
        """The words of the command line: a list at the end is one word for each item."""
        given = list(self.case.arguments)
        if given and isinstance(given[-1], list):
            given += given.pop()
        texts = (one if isinstance(one, str) else json.dumps(one) for one in given)
        return [text.replace(str(PORT), str(self.port)) for text in texts]

    def _environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "VEGA_TRUSTED_FOLDERS": "/",
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": str(ROOT / "src"),
            "ANTHROPIC_API_KEY": "any",
            "VEGA_PROVIDERS_ANTHROPIC_BASE_URL": self.provider.url,
        }

    def _listen(self, stream: IO[str], said: list[str]) -> None:
        """Read what the command says beside its account; a question there is answered."""
        asked, words = "", list[str]()
        for line in stream:
            said.append(line)
            if found := _QUESTION.match(line):
                asked, words = found[1], []
            elif asked and line.startswith(_FENCE):
                words.append(line.removeprefix(_FENCE).rstrip("\n"))
            elif asked and line.startswith(_ANSWER):
                self._answer(asked, "".join(words))
                asked = ""

    def _answer(self, question: str, text: str) -> None:
        """Answer as `vega answer` does, without the time that a command takes to start: on a busy
        machine that would be a person's silence."""
        self.questions.append(text)
        answer = next((a for needle, a in self.case.person.items() if holds(text, needle)), None)
        if answer is not None:
            socket = find(None, self.home / ".local/share/vega/run")
            ControlClient(socket).blocking.answer(question, answer)


@contextmanager
def _stage(case: Case, source: str, suffix: str, port: int) -> Generator[_Stage]:
    folder = Path(tempfile.mkdtemp(prefix="vega-card-"))
    try:
        stage = _Stage(folder, case, f"main{suffix}", port)
        lay_out(case, stage.project)
        (stage.project / stage.name).write_text(source, encoding="utf-8")
        with stage.provider.in_thread(), stage.server.running(port):
            yield stage
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _vega() -> list[str]:
    return [sys.executable, "-m", "vegakit"]


def _end(process: "subprocess.Popen[str]") -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def holds(text: str, needle: str) -> bool:
    """Whether a question holds a text: people are shown it in lines that break anywhere."""
    bare = re.sub(r"\\n|\s", "", text)
    return re.sub(r"\s", "", needle) in bare


# What is compared, in the order in which it is told.


def _first_fault(case: Case, stage: _Stage) -> tuple[str, str]:
    seen = stage.run()
    if isinstance(seen, str):
        return "does not end", seen
    for kind, why in _faults(case, stage, seen):
        if why:
            return kind, why
    return "", ""


def _faults(case: Case, stage: _Stage, seen: Seen) -> Iterable[tuple[str, Fault]]:
    error: dict[str, str] | None = seen.page.get("error")
    unknown = next(iter(stage.model.faults), None)
    if case.fails:
        said = f"{error['name']}: {error['reason']}" if error else "it did not fail"
        yield "ends otherwise", None if case.fails in said else f"{said}; it has to fail"
    elif error:
        told = f"; {unknown}" if unknown else ""
        yield f"fails: {error['name']}", _one_line(error["reason"]) + told
    else:
        yield "returns otherwise", difference(case.result, seen.page.get("result"))
    yield "asks a model otherwise", unknown
    for path, look in case.written.items():
        text = seen.files.get(path)
        fault = "it was not written" if text is None else look(text)
        yield "writes otherwise", fault and f"{path}: {fault}"
    there = [path for path in case.absent if path in seen.files]
    yield "writes otherwise", f"{there[0]} was written" if there else None
    yield "posts otherwise", _posts_fault(case, seen)
    yield "asks a person otherwise", _questions_fault(case, seen)
    late = seen.seconds > case.within_s
    yield "too slow", f"{seen.seconds:.0f} s, not {case.within_s:.0f}" if late else None
    spent = float(seen.page.get("account", {}).get("spent_usd") or 0)
    yield "too dear", f"${spent:.4f} was spent" if spent > case.spends_at_most else None
    yield "does otherwise", case.also(seen)


def _posts_fault(case: Case, seen: Seen) -> Fault:
    wanted, got = list(case.posted), list(seen.posts)
    if len(wanted) != len(got):
        return f"there were {len(got)} posts, not {len(wanted)}: {got[:3]}"
    for nth, (path, body) in enumerate(wanted):
        among = [got[nth]] if case.posts_in_order else got
        faults = [difference([path, body], list(one), "the post") for one in among]
        if None not in faults:
            return faults[0]
        if not case.posts_in_order:
            got.pop(faults.index(None))
    return None


def _questions_fault(case: Case, seen: Seen) -> Fault:
    left = list(seen.questions)
    for needles in case.asked:
        found = next((text for text in left if all(holds(text, one) for one in needles)), None)
        if found is None:
            return f"no question holds {' and '.join(map(repr, needles))}; asked was {left[:3]}"
        left.remove(found)
    return f"it asked also {left[0]!r}" if left else None


__all__ = ["Anything", "Verdict", "holds", "judge"]
