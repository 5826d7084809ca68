"""Programs that models write, in ours and in Pydantic AI's harness: `python -m … [part …]`.

Parts are `before`, `cap` and `kill`; all without a word. A scripted model behind a provider on
127.0.0.1 sends the same plan to each in its own language; counted is what that provider saw.
Exits 1 if ours sends an ask for a program that is refused, is billed above the cap, sends again
what its journal had, or ends without the result.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks.peers_programs.plans import CAP, PER_ROUND
from benchmarks.peers_programs.running import PEERS_PYTHON, SLOW_MS, Moment, Way, killed, seen
from vegakit.money import Money, dollars, format_money

__all__ = ["main"]

OURS = Way("Vega `run_program`")
DEFAULTS = Way("DynamicWorkflow, as it comes (50 calls)", "defaults")
LIMITS = Way("DynamicWorkflow, `cost_limit`", "limits")
SPEND = Way("DynamicWorkflow, `SpendLimits`", "spend")
CODE = Way("CodeMode, `cost_limit`", "code")
STEPS = Way("DynamicWorkflow, `StepPersistence`", "limits")
CODE_STEPS = Way("CodeMode, `StepPersistence`", "code")
DURABLE = Way("DynamicWorkflow, `DBOSDurability`", "dbos")
_WORDS = "180"
"""What the plans that are killed come to: sixty answers of three words."""
_PACKAGES = ("pydantic-ai-harness", "pydantic-ai-slim", "pydantic-monty", "dbos")
_MOMENTS: dict[str, tuple[str, Moment, int]] = {
    "in the sixth of ten rounds, asks in flight": ("rounds", lambda came, _: came >= 33, 0),
    "in the sixth round, as its answers come": ("rounds", lambda _, ended: ended >= 33, PER_ROUND),
    "60 at once, as their answers come": ("sixty", lambda _, ended: ended >= 33, 60),
}
"""The plan, when it is killed, and how many answers may be on their way to the journal then."""


class Row(NamedTuple):
    cells: tuple[str, ...]
    holds: bool = True


def before() -> Iterator[Row]:
    yield Row(("plan", "way", "asks sent", "what the model is told"))
    for plan in ("misspelled", "touching", "at_once"):
        for way in (OURS, DEFAULTS, CODE):
            if (plan, way) == ("at_once", CODE):
                continue
            run = seen(way, plan)
            told = _short(run.said or run.error)
            yield Row((plan, way.name, f"{run.asks}", told), way is not OURS or not run.asks)


def cap() -> Iterator[Row]:
    yield Row(("plan", "way", "asks sent", "billed", "above $1", "how it ends"))
    runs = [(OURS, "at_once"), (OURS, "in_turn"), (OURS, "in_session")]
    runs += [(way, "at_once") for way in (DEFAULTS, LIMITS, SPEND, CODE)] + [(LIMITS, "in_turn")]
    for way, plan in runs:
        run = seen(way, plan, *([] if plan == "in_turn" else [SLOW_MS]))
        over = Money(max(0, run.billed - dollars(f"${CAP}")))
        ended = _short(run.said or run.error)
        cells = (plan, way.name, f"{run.asks}", format_money(run.billed), format_money(over), ended)
        yield Row(cells, way is not OURS or not over)


def kill() -> Iterator[Row]:
    yield Row(
        (
            "killed",
            "way",
            "answered",
            "of these sent again",
            "cut off",
            "of these sent again",
            "result",
        )
    )
    for name, (plan, moment, most) in _MOMENTS.items():
        for way in (OURS, STEPS, CODE_STEPS, DURABLE):
            run = killed(way, plan, moment)
            right = _WORDS in run.said
            told = "right" if right else _short(run.said or run.error)
            counts = (run.answered, run.again, run.cut, run.cut_again)
            yield Row(
                (name, way.name, *map(str, counts), told),
                way is not OURS or (right and run.again <= most),
            )


PARTS: dict[str, Callable[[], Iterator[Row]]] = {"before": before, "cap": cap, "kill": kill}


def _short(text: str) -> str:
    plain = " ".join(text.replace("\\n", " ").replace("|", "/").split())
    return plain if len(plain) <= 230 else f"{plain[:230]} …"


def _versions() -> str:
    code = "import sys; from importlib.metadata import version as v\n"
    code += "print(', '.join(f'{name} {v(name)}' for name in sys.argv[1:]))"
    command = [str(PEERS_PYTHON), "-c", code, *_PACKAGES]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main(words: list[str]) -> int:
    if not PEERS_PYTHON.exists() or not PARTS.keys() >= set(words):
        print("type: bash benchmarks/peers_programs/setup.sh, then name some of:", *PARTS)
        return 2
    print(_versions())
    short = 0
    for part in words or PARTS:
        print(f"\n## {part}\n")
        for number, row in enumerate(PARTS[part]()):
            print(f"| {' | '.join(row.cells)} |{'' if row.holds else '  BROKEN'}", flush=True)
            if not number:
                print("|---" * len(row.cells) + "|")
            short += not row.holds
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
