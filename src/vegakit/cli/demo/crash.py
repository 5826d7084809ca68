"""`vega demo crash`: a run is killed by `kill -9` and goes on, and the provider counts what it was
asked.

It needs no key and no network. The provider is a server on this machine; the run, the kill and what
goes on are real processes, which use the command as a person would, in a home of their own.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from vegakit.cli.demo.screen import BOLD, DIM, demo_parser
from vegakit.cli.look import PIPE, Look, Tone, look_of, money, print_json
from vegakit.config import environment_variable
from vegakit.errors import UserError
from vegakit.money import NANOS, Money, in_dollars
from vegakit.testing import Provider, ProviderReply, ProviderRequest

TOPICS = ("planets", "comets", "moons", "rings", "dust", "stars")
PROGRAM = f"""\
agent Writer {{ model fast  system "Write one line."  max_tokens 60 }}
agent Editor {{ model fast  system "Make one text of it."  max_tokens 100 }}

fn main() budget $0.05 {{
    let topics = {json.dumps(TOPICS)};
    let lines = [for topic in topics {{ Writer <- "A line about {{topic}}." }}];
    print(Editor <- "Join: {{lines}}");
}}
"""
_NAME = "sky.vega"
_TITLE = "No key: a provider on this machine, a real process, and a real kill -9."
_ANSWER = "Six lines about the sky, each paid for once."
_FIRST_MS, _NEXT_MS, _EDITS_MS = 500, 450, 400
_KILL_AFTER, _HELD_MS = 4, 600_000
_ARRIVES_S = 0.3
"""How long the kill waits after the last answer was sent, so that it has arrived."""
_PATIENCE_S = 120.0
_GREEN, _RED = Tone.OK, Tone.BAD
_INDENT = " " * 10


class CrashSummary(msgspec.Struct, frozen=True):
    """The figures of the demo, requests as the provider counted them.
    `unknown` is what calls that the kill cut off are charged, since nobody knows their bill."""

    questions: int
    arrived: int
    cut_off: int
    requests: int
    bought_again: int
    at_most: Money
    spent: Money
    unknown: Money
    status: int
    output: str

    @property
    def holds(self) -> bool:
        """Whether the demo has shown what it promises."""
        return (
            self.status == 0
            and self.output == _ANSWER
            and self.bought_again == 0
            and self.requests == self.questions + self.cut_off
            and self.spent <= self.at_most
        )


def run_crash(arguments: Sequence[str]) -> int:
    """Run `vega demo crash`."""
    chosen = demo_parser(
        "vega demo crash",
        "Watch a run be killed by `kill -9` and go on: no answer that had arrived is "
        "paid for again.",
        faster="three times faster",
    ).parse_args(arguments)
    look = PIPE if chosen.json else look_of(sys.stdout)
    show = _show_nothing if chosen.json else _show
    with tempfile.TemporaryDirectory(prefix="vega-demo-") as folder:
        try:
            facts = play(Path(folder), show, look, pace=0.3 if chosen.fast else 1.0)
        except KeyboardInterrupt:
            return 130
    if chosen.json:
        print_json(in_dollars(facts))
    return 0 if facts.holds else 1


def play(folder: Path, show: Callable[[str], None], look: Look, pace: float) -> CrashSummary:
    """Play the demo in an empty folder, and return what it came to."""
    paint = look.paint
    (folder / _NAME).write_text(PROGRAM, encoding="utf-8")

    def row(name: str, text: str, style: str = BOLD) -> None:
        first, *more = look.fold(text, _INDENT, _INDENT)
        show(f"  {paint(f'{name:8}', style)}{first[len(_INDENT) :]}")
        for line in more:
            show(line)

    show(f"  {paint(_TITLE, DIM)}\n")
    for line in PROGRAM.splitlines():
        show(f"    {paint(line, DIM)}".rstrip())
    with Provider(_answering(pace)).in_thread() as provider:
        commands = _Commands(folder, provider.url)
        at_most = _money_of(commands.json("cost", _NAME)["total_usd"])
        show("")
        row("quote", f"$ vega cost {_NAME}   at most {money(at_most)}, whatever a kill adds")
        row("run", f"$ vega run {_NAME}    {len(TOPICS)} questions at once, then one")
        run = commands.start("run", _NAME)
        _wait_until(lambda: _answered(provider.requests) >= _KILL_AFTER, run)
        time.sleep(_ARRIVES_S)
        run.kill()
        run.communicate()
        asked, arrived = len(provider.requests), _answered(provider.requests)
        cut_off = asked - arrived
        row("kill", f"kill -9 {run.pid}: {arrived} answers had arrived, {cut_off} were due", _RED)
        row("resume", "$ vega resume          goes on where it was")
        resumed = commands.start("resume")
        output, errors = resumed.communicate(timeout=_PATIENCE_S)
        requests = [*provider.requests]
        (told,) = commands.json("runs")
    texts = Counter(request.text for request in requests)
    before = {r.text for r in requests[:asked] if r.status == "answered"}
    facts = CrashSummary(
        questions=len(texts),
        arrived=arrived,
        cut_off=cut_off,
        requests=len(requests),
        bought_again=sum(texts[text] - 1 for text in before),
        at_most=at_most,
        spent=_money_of(told["spent_usd"]),
        unknown=_money_of(told["lost_usd"]),
        status=resumed.returncode,
        output=output.strip(),
    )
    if resumed.returncode:
        show(errors.rstrip())
    _show_end(facts, row, show)
    return facts


def _show_end(facts: CrashSummary, row: Callable[..., None], show: Callable[[str], None]) -> None:
    again = facts.bought_again
    row("answer", facts.output)
    show("")
    row(
        "counted",
        f"{facts.questions} questions; the provider counted {facts.requests} requests: "
        f"{facts.questions} and the {facts.cut_off} that the kill cut off",
    )
    row("again", f"{again} answers that had arrived were paid for again", _RED if again else _GREEN)
    row(
        "money",
        f"{money(facts.spent)} of at most {money(facts.at_most)}; "
        f"{money(facts.unknown)} of it for what was cut off, which may have been billed",
    )
    show("")
    row("next", "vega init  a project of your own, with an agent and a test")


def _answering(pace: float) -> Callable[[ProviderRequest], ProviderReply]:
    """Return a provider that answers one question after the other, and keeps the last ones waiting
    until they are asked again: so the kill comes between two answers, however busy the machine
    is."""
    asked = Counter[str]()

    def answer(request: ProviderRequest) -> ProviderReply:
        asked[request.text] += 1
        for number, topic in enumerate(TOPICS):
            if f"about {topic}." in request.text:
                delay_ms = int((_FIRST_MS + number * _NEXT_MS) * pace)
                if number >= _KILL_AFTER and asked[request.text] == 1:
                    delay_ms = _HELD_MS
                return ProviderReply(f"A line that tells of {topic}.", delay_ms=delay_ms)
        return ProviderReply(_ANSWER, delay_ms=int(_EDITS_MS * pace))

    return answer


def _money_of(usd: float) -> Money:
    return Money(round(usd * NANOS))


def _answered(requests: Sequence[ProviderRequest]) -> int:
    return sum(request.status == "answered" for request in requests)


class _Commands:
    """The command as a person would type it, in a home that holds nothing else."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        home = {"HOME": str(folder), "USERPROFILE": str(folder), "APPDATA": str(folder)}
        self._variables: Mapping[str, str] = {
            **{name: value for name in _SYSTEM if (value := environment_variable(name))},
            **home,
            "LOCALAPPDATA": str(folder),
            "ANTHROPIC_API_KEY": "no-key-is-needed",
            "VEGA_PROVIDERS_ANTHROPIC_BASE_URL": url,
        }

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "vegakit", *words],
            cwd=self._folder,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def json(self, *words: str) -> Any:  # noqa: ANN401
        output, errors = self.start(*words, "--json").communicate(timeout=_PATIENCE_S)
        try:
            return json.loads(output)
        except ValueError:
            raise UserError(f"vega {words[0]} did not answer: {errors.strip()}") from None


_SYSTEM = ("PATH", "SYSTEMROOT", "LANG", "LC_ALL", "PYTHONPATH", "PYTHONUTF8", "TMPDIR", "TEMP")


def _wait_until(holds: Callable[[], bool], process: "subprocess.Popen[str]") -> None:
    """Look again and again: what is waited for happens in another process, which tells nobody."""
    until = time.monotonic() + _PATIENCE_S
    while not holds():
        if process.poll() is not None:
            _, errors = process.communicate()
            raise UserError(f"the run of the demo ended before it was killed: {errors.strip()}")
        if time.monotonic() > until:
            process.kill()
            raise UserError("the run of the demo asked nothing; type: vega doctor")
        time.sleep(0.01)


def _show(line: str) -> None:
    print(line, flush=True)


def _show_nothing(line: str) -> None:
    pass
