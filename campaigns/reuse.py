"""Edited programs that keep the answers of a run: random programs, a random edit of each, and what
must hold of `vega run --reuse`.

| of each edit                 | what must hold                                                    |
|------------------------------|-------------------------------------------------------------------|
| what the program comes to    | every call has the answer that it has in a fresh run of the edit  |
| what it costs                | no more than was said before it began                             |
| what is sent                 | nothing that is kept; kept and bought together are all answers    |
| an edit that changes nothing | nothing is sent                                                   |

The model answers by the request alone, or, where calls are made one after another, by the request
and how often it was made before. Half of the programs look ahead while answers take their time.
"""

import json
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.lang.quoting.running import checked_of
from tests.lang.quoting.writing import FLAGS, Writer

from vegakit.conversation import (
    AssistantMessage,
    Finish,
    ModelReply,
    ModelRequest,
    ToolCall,
    Usage,
)
from vegakit.effects import CallModel, digest_of
from vegakit.errors import VegaError
from vegakit.events import Answered
from vegakit.host import LimiterRules, keep_answers, keep_rest, walk_through
from vegakit.ids import Digest, ProgramId, ScopeId
from vegakit.lang import Checked, KnownRun, ModelTerms, compile_program, quote
from vegakit.money import Money
from vegakit.policy import BreakerRule, RateRule, RetryBudgetRule
from vegakit.prices import PAID_REPEATS
from vegakit.program import Printed
from vegakit.providers import ScriptedModel, ScriptedReply
from vegakit.records import digest128
from vegakit.sdk import Runtime, VegaProgram
from vegakit.store import MemoryJournal, list_runs
from vegakit.testing import VirtualClock, run_virtual

_PATIENT = LimiterRules(RateRule(), BreakerRule(threshold=10**9), RetryBudgetRule(100, 10**9))
_AMOUNT = re.compile(r"\$0\.\d+")
_GIVEN: list[object] = [["u", "v", "w"], [number % 2 == 0 for number in range(FLAGS)]]


# Programs whose messages depend on answers, and edits of them.


class DependentWriter(Writer):
    """Sends whose answers go into later messages."""

    def _send(self, depth: int, known: dict[str, str], indent: str) -> str:
        if self.chance.random() < 0.4:
            return super()._send(depth, known, indent)
        name, ask = self._fresh(), self._ask(known)
        known[name] = "str"
        return f"{indent}let {name} = {ask};\n{indent}print({name});\n"


def program_of(seed: int) -> str:
    """Of three programs two have budgets that always have room."""
    text = DependentWriter(seed).program()
    if not is_tight(seed):  # tools ask agents inside of the budget of T
        text = re.sub(r"(agent T \{\n.*\n.*max_steps \d)[^\n]*", r"\1 budget $10", text)
        text = re.sub(r'(T <- "[^"]*" budget )\$0\.\d+', r"\1$10", text)
        before, tool, after = re.split(r"(    tool dig(?:.|\n)*?return what;)", text)
        tool = re.sub(r"(?<=session budget )\$0\.\d+", "$4", tool)
        text = f"{before}{re.sub(r'(?<=wallet )[$]0[.][0-9]+', '$3', tool)}{after}"
    return text if is_tight(seed) else "\n".join(map(_loosened, text.splitlines())) + "\n"


def _loosened(line: str) -> str:
    """Budgets inside of others are smaller by more than anything costs."""
    within = len(line) - len(line.lstrip())
    line = re.sub(r"(?<=session budget )\$0\.\d+", f"${90 - within}", line)
    line = re.sub(r"(?<=\] budget )\$0\.\d+", "$200", line)
    return _AMOUNT.sub("$1", re.sub(r"(?<=wallet )\$0\.\d+", "$20", line))


def is_tight(seed: int) -> bool:
    return seed % 3 == 0


_ASK = re.compile(r'[ABT] <- "[^"]*"')
_LITERAL = re.compile(r"range\((\d)\)|limit (\d)")
_WHOLE_LINE = re.compile(r"^ +(?:try \{ .*\} catch \{ \}|[ABT] <- .*;)$")


def _lines(text: str) -> list[int]:
    return [at for at, line in enumerate(text.splitlines()) if _WHOLE_LINE.match(line)]


def _on_line(change: Callable[[list[str], int, Random], None]) -> Callable[[str, Random], str]:
    def edit(text: str, chance: Random) -> str:
        lines, found = text.splitlines(), _lines(text)
        if found:
            change(lines, chance.choice(found), chance)
        return "\n".join(lines) + "\n"

    return edit


def _insert(lines: list[str], at: int, chance: Random) -> None:
    indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
    said = chance.choice(["new", "say it", "x"])
    lines.insert(at, f'{indent}try {{ {chance.choice("AB")} <- "{said}"; }} catch {{ }}')


def _swap(lines: list[str], at: int, chance: Random) -> None:
    lines[at - 1 : at + 1] = lines[at], lines[at - 1]


def _wrap(lines: list[str], at: int, chance: Random) -> None:
    lines[at] = f"for wrapped in range({chance.randint(1, 3)}) {{ {lines[at]} }}"


def _message(text: str, chance: Random) -> str:
    found = [*_ASK.finditer(text)]
    if not found:
        return text
    at = chance.choice(found).end() - 1
    return f"{text[:at]} please{text[at:]}"


def _literal(text: str, chance: Random) -> str:
    found = [*_LITERAL.finditer(text)]
    if not found:
        return text
    one = chance.choice(found)
    more = one[0].replace(one[1] or one[2], str(int(one[1] or one[2]) + 1))
    return f"{text[: one.start()]}{more}{text[one.end() :]}"


def _setting(pattern: str, new: str) -> Callable[[str, Random], str]:
    def edit(text: str, chance: Random) -> str:
        found = chance.choice([*re.finditer(pattern, text)])
        return f"{text[: found.start()]}{found.expand(new)}{text[found.end() :]}"

    return edit


EDITS: dict[str, Callable[[str, Random], str]] = {
    "nothing": lambda text, _: text,
    "names": lambda text, _: re.sub(r"\bv(\d+)\b", r"renamed\1", text),
    "message": _message,
    "insert": _on_line(_insert),
    "delete": _on_line(lambda lines, at, _: lines.__delitem__(at)),
    "reorder": _on_line(_swap),
    "wrap": _on_line(_wrap),
    "literal": _literal,
    "max_tokens": _setting(r"max_tokens (\d+)", r"max_tokens \g<1>1"),
    "system": _setting(r'system "(\S+) (\S+) ', r'system "\1 \2 well '),
}
UNCHANGED = ("nothing", "names")


def edit_of(seed: int, text: str) -> tuple[str, str, Checked]:
    """The name of an edit, the program that it leaves, and that one checked."""
    chance = Random(seed)
    while True:
        name = chance.choice([*EDITS])
        edited = EDITS[name](text, chance)
        try:
            return name, edited, checked_of(edited)
        except AssertionError:  # it does not compile: a person would not run it
            continue


# The model: it answers by the request, and counts what it is sent.


class SteadyModel(ScriptedModel):
    def __init__(self, chance: Random, clock: VirtualClock, counts: Counter[Digest] | None) -> None:
        super().__init__(self._said, context_tokens=100_000)
        self._delays, self._time = chance, clock
        self.counts = counts
        self.sent: Counter[Digest] = Counter()
        self._numbers: dict[int, tuple[Digest, int]] = {}

    async def ask(self, request: ModelRequest) -> ModelReply:
        """Number equal requests when they are made, not when they are answered."""
        self._numbers[id(request)] = self._number(request)
        return await super().ask(request)

    async def _wait(self, latency_ms: int) -> None:
        await self._time.wait_until(self._time.now() + self._delays.choice([1, 2, 500, 3_000]))

    def _number(self, request: ModelRequest) -> tuple[Digest, int]:
        digest = digest_of(CallModel(request, Money(0), ScopeId("")))
        self.sent[digest] += 1
        if self.counts is None:
            return digest, 0
        self.counts[digest] += 1
        return digest, self.counts[digest]

    def _said(self, request: ModelRequest) -> ScriptedReply | ModelReply:
        word = digest128(self._numbers.pop(id(request)))[:8]
        number = int(word, 16)
        if request.output is not None and number % 8:
            plan = {"steps": [word, "b"][: number % 3], "sure": number % 2 == 0}
            return ScriptedReply(output=plan)
        if request.tools and number % 3 == 0:
            call = ToolCall(word, request.tools[0].name, {"what": word})
            usage = Usage(self.bound_input(request), 1)
            return ModelReply(AssistantMessage((call,), self.name), usage, Finish.TOOL_CALLS)
        return ScriptedReply(text="" if number % 11 == 0 else "fine" if number % 5 == 0 else word)


# One program: run, edited, run afresh and with what is kept.


@dataclass
class Ran:
    program: ProgramId
    error: str = ""
    printed: list[str] = field(default_factory=list[str])
    spent: int = 0
    said: Money | None = None
    calls: dict[str, tuple[Digest, Any, bool]] = field(
        default_factory=dict[str, tuple[Digest, Any, bool]]
    )
    """Calls that the program came to by their places: what was asked, the answer, whether kept."""
    bought: Counter[Digest] = field(default_factory=Counter[Digest])

    @property
    def asked(self) -> Counter[Digest]:
        return Counter(digest for digest, _, _ in self.calls.values())


async def _run(
    checked: Checked,
    journal: MemoryJournal,
    model: SteadyModel,
    clock: VirtualClock,
    lookahead: int,
    earlier: ProgramId | None = None,
) -> Ran:

    def models(_: str) -> SteadyModel:
        return model

    def limits(_: str) -> LimiterRules:
        return _PATIENT

    module = compile_program(checked)
    program = VegaProgram(module, Path(tempfile.gettempdir()))
    given = _GIVEN[: len(module.functions[module.main].params)]
    parts: Any = {"models": models, "limits": limits, "clock": clock, "journal": journal}
    async with Runtime("$1000", lookahead=lookahead, **parts) as rt:
        assert rt.journaled is not None
        ran = Ran(rt.journaled.run.program)
        if earlier is not None:
            walk = await walk_through(rt.program, rt.journaled, earlier, program, "main", given)
            ran.said = walk.at_most(_quoted(checked, model, given), None)
            await keep_answers(rt.program, rt.journaled, walk, earlier, ran.said)
            await keep_rest(rt.program, rt.journaled, earlier)
        rt.on(Printed, lambda news: ran.printed.append(news.text))
        try:
            await rt.program.run(program, "main", given, None, None)
        except VegaError as error:
            ran.error = type(error).__name__
        ran.spent = await rt.spent()
    for one in await journal.past(ran.program):
        if one.kind == CallModel.__name__ and isinstance(one.outcome, Answered):
            if one.committed:
                said = one.outcome.value
                ran.calls[one.path] = one.digest, said, one.outcome.kept
            if not one.outcome.kept:
                ran.bought[one.digest] += 1
    return ran


def _quoted(checked: Checked, model: SteadyModel, given: list[object]) -> int | None:
    assert model.price is not None
    terms = ModelTerms(
        model.price, model.context_tokens, model.default_max_tokens, model.bound_input
    )
    return quote(checked, lambda _: terms, known=KnownRun(tuple(given)), repeats=PAID_REPEATS).total


@dataclass
class Edited:
    """What came of one edit. `wrong` is what must not be."""

    name: str
    kept: int = 0
    bought: int = 0
    could: int = 0
    """Answers that somebody could have kept who knew the whole run before."""
    spent: int = 0
    said: int | None = 0
    fresh: int = 0
    wrong: list[str] = field(default_factory=list[str])


async def edited(seed: int) -> Edited:
    """Run a program, edit it, and run that afresh and with what is kept."""
    text = program_of(seed)
    name, _, checked = edit_of(seed, text)
    lookahead = 0 if seed % 2 else 50
    clock, journal = VirtualClock(), MemoryJournal()

    def model(number: int) -> SteadyModel:
        counts = Counter[Digest]() if lookahead == 0 else None
        return SteadyModel(Random(f"{seed} {number}"), clock, counts)

    first = await _run(checked_of(text), journal, model(0), clock, lookahead)
    fresh = await _run(checked, MemoryJournal(), model(1), clock, lookahead)
    again = model(2)
    if again.counts is not None:  # what is bought goes on where the answers end that are there
        again.counts.update(first.bought)
    ran = await _run(checked, journal, again, clock, lookahead, first.program)
    could = sum((first.asked & fresh.asked).values())
    kept = sum(is_kept for _, _, is_kept in ran.calls.values())
    came = Edited(name, kept, again.sent.total(), could, ran.spent, ran.said, fresh.spent)
    came.wrong.extend(_wrong(name, seed, fresh, ran, again))
    given = Counter(digest for digest, _, is_kept in ran.calls.values() if is_kept)
    if given - first.bought:
        came.wrong.append("an answer was kept twice")
    if "async" not in text and "parallel" not in text:  # where what was not waited for may be cut
        came.wrong.extend(_missing(seed, fresh, ran))
    return came


def _wrong(name: str, seed: int, fresh: Ran, ran: Ran, model: SteadyModel) -> Iterator[str]:
    if ran.said is not None and ran.spent > ran.said:
        yield f"cost {ran.spent} and was said to cost {ran.said}"
    if not is_tight(seed):
        both = ran.calls.keys() & fresh.calls.keys()
        differ = [at for at in both if ran.calls[at][:2] != fresh.calls[at][:2]]
        if differ:
            yield f"{len(differ)} calls have other answers, as {differ[0]}"
        if (ran.error, ran.printed) != (fresh.error, fresh.printed):
            yield f"came to {ran.error} {ran.printed}, not {fresh.error} {fresh.printed}"
    if name in UNCHANGED and model.sent and not is_tight(seed):
        yield f"{model.sent.total()} calls were sent though nothing changed"
    if ran.bought - model.sent:
        yield f"{(ran.bought - model.sent).total()} answers were bought by nobody"
    if model.counts is not None and model.sent != ran.bought:  # one after another, nothing early
        yield "what was sent is not what was bought"


def _missing(seed: int, fresh: Ran, ran: Ran) -> Iterator[str]:
    if not is_tight(seed) and ran.calls.keys() != fresh.calls.keys():
        yield f"came to {len(ran.calls)} calls, not {len(fresh.calls)}"


# `kill -9` of a run that keeps answers, as a person starts it.


_KILLED = """
agent A {{ model smart  system "Write."  max_tokens {tokens} }}
agent B {{ model smart  system "Judge."  max_tokens 20 }}

fn main() {{
    let plan = B <- "plan {edit}";
    for i in range(6) {{
        let text = A <- "write {{i}}";
        print("{{plan}} {{text}} {{B <- "judge {{i}} {{text}}"}}");
    }}
}}
"""


def _vega(folder: Path, *words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "vegakit", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True)


def killed(seed: int) -> str:
    """Kill a run that keeps answers, forget the earlier one, and have it go on; return what is
    wrong with that."""
    chance = Random(seed)
    edit = {"tokens": chance.choice([50, 51]), "edit": "anew"}
    # One call is cut off at most: of many at once some would find no paid repeat, and pause it.
    run = ("run", "p.vega", "--model", "scripted:s.json", "--journal", "j.db", "--sequential")
    with tempfile.TemporaryDirectory(prefix="vega-reuse-") as made:
        folder = Path(made)
        matches = {f"judge {number}": f"j{number}" for number in range(6)}
        matches |= {f"write {number}": f"w{number}" for number in range(6)} | {"plan": "p"}
        (folder / "s.json").write_text(json.dumps({"matches": matches, "latency_ms": 150}))
        (folder / "p.vega").write_text(_KILLED.format(tokens=50, edit="first"))
        said, _ = _vega(folder, *run).communicate()
        [first] = list_runs(folder / "j.db")
        (folder / "p.vega").write_text(_KILLED.format(**edit))
        process = _vega(folder, *run, "--reuse", first.run.program)
        deadline = time.monotonic() + 300
        while not _is_begun(folder) and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 1.5))
        process.kill()
        _, told = process.communicate()
        if not _is_begun(folder):
            return f"it did not begin: {told}"
        with closing(sqlite3.connect(folder / "j.db")) as journal, journal:
            for table in ("effects", "runs"):
                gone = f"DELETE FROM {table} WHERE program = ?"
                journal.execute(gone, (first.run.program,))
        [cut] = list_runs(folder / "j.db")
        if cut.ended_ms is None:
            again, _ = _vega(folder, "resume", "j.db").communicate()
            if again != said:
                return f"came to {again!r}, not {said!r}"
        [last] = list_runs(folder / "j.db")
    reused = last.run.reused
    if last.ended_ms is None or reused is None or last.spent > (reused.at_most or 0):
        return f"cost {last.spent}: {last.run}"
    return "" if reused.kept == (0 if edit["tokens"] == 51 else 12) else f"{reused.kept} were kept"


def _is_begun(folder: Path) -> bool:
    runs = list_runs(folder / "j.db")
    return len(runs) > 1 and runs[-1].run.reused is not None


def main(programs: int = 100, kills: int = 0) -> int:
    began, all_of = time.monotonic(), Counter[str]()
    wrong = 0
    for seed in range(kills):
        if problem := killed(seed):
            wrong += 1
            print(f"kill {seed}: {problem}")
    for seed in range(programs):
        came = run_virtual(edited(seed))
        for problem in came.wrong:
            wrong += 1
            print(f"seed {seed} ({came.name}): {problem}", flush=True)
        all_of.update(kept=came.kept, bought=came.bought, could=came.could)
        all_of.update(spent=came.spent, fresh=came.fresh, bounded=came.said is not None)
        all_of.update(said=came.said or 0)
    share = all_of["kept"] / max(all_of["could"], 1)
    print(
        f"{programs:,} edits and {kills} kills in {time.monotonic() - began:.0f} s: "
        f"{all_of['kept']:,} answers kept, "
        f"{all_of['bought']:,} bought, {share:.1%} of {all_of['could']:,} that could be kept; "
        f"spent {all_of['spent'] / max(all_of['fresh'], 1):.0%} of fresh runs; "
        f"{all_of['bounded']:,} had a bound, {wrong} things wrong"
    )
    return int(wrong > 0 or share < 0.95)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
