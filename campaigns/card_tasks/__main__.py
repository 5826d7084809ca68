"""Judge the programs that were written from the card alone, and print a table; rates last.

python -m campaigns.card_tasks                 both syntaxes, both sets
python -m campaigns.card_tasks vega 03 07      those of one syntax, or some tasks
python -m campaigns.card_tasks --markdown      the table as a page shows it
python -m campaigns.card_tasks --from FOLDER   programs of another folder than the kept ones
python -m campaigns.card_tasks.earlier         the earlier thirty alone, which run last

Tasks 01 to 30 are the first set, 31 to 60 the second; each has rates of its own.

A program is FOLDER/vega/NN.vega or FOLDER/python/NN.py. `classes.toml` beside them says, for a
program that fails, whose fault that is: `[vega]` `07 = "card: says nothing of …"`.
"""

import argparse
import sys
import tomllib
from pathlib import Path
from typing import Final, NamedTuple

from campaigns.card_tasks import (
    cases_01_to_15,
    cases_16_to_30,
    cases_31_to_45,
    cases_46_to_60,
    earlier,
)
from campaigns.card_tasks.judge import ROOT, Verdict, judge

KEPT = ROOT / "tests/data/card_tasks"
_HEAD = "| task | checks | works | what went wrong | first of it |\n|---|---|---|---|---|"
SETS: Final = {
    "01 to 30": {**cases_01_to_15.CASES, **cases_16_to_30.CASES},
    "31 to 60": {**cases_31_to_45.CASES, **cases_46_to_60.CASES},
}
"""The tasks that the card was changed after, and those that it has not met."""
CASES: Final = {task: cases for one in SETS.values() for task, cases in one.items()}


class Syntax(NamedTuple):
    """What a syntax is called, its files, and how many of a set have to check and to work."""

    name: str
    suffix: str
    shown: str
    checks: int
    works: int


SYNTAXES: Final = (
    Syntax("vega", ".vega", ".vega", 27, 24),
    Syntax("python", ".py", "Python", 24, 22),
)


def main() -> int:
    """Judge what the arguments choose; 1 if a rate falls short."""
    parser = argparse.ArgumentParser(prog="python -m campaigns.card_tasks")
    parser.add_argument("words", nargs="*", metavar="vega|python|NN")
    parser.add_argument("--markdown", action="store_true", help="the table as a page shows it")
    parser.add_argument("--from", dest="folder", type=Path, default=KEPT, metavar="FOLDER")
    chosen = parser.parse_intermixed_args()
    names = {one.name for one in SYNTAXES}
    syntaxes = [one for one in SYNTAXES if not names & {*chosen.words} or one.name in chosen.words]
    tasks = [one for one in CASES if not {*CASES} & {*chosen.words} or one in chosen.words]
    if unknown := {*chosen.words} - names - {*CASES}:
        parser.error(f"there is no {', '.join(sorted(unknown))}; tasks are 01 to 60")
    classes = _classes(chosen.folder)
    rates, short = list[str](), False
    for syntax in syntaxes:
        verdicts = dict[str, Verdict]()
        if chosen.markdown:
            print(f"\n## {syntax.shown}\n\n{_HEAD}")
        for task in tasks:
            verdicts[task] = _verdict(chosen.folder, syntax, task)
            cause = classes.get(syntax.name, {}).get(task, "")
            print(_row(syntax, task, verdicts[task], cause, markdown=chosen.markdown), flush=True)
        for name, cases in SETS.items():
            found = [verdicts[task] for task in cases if task in verdicts]
            if found:
                rates.append(_rate(syntax, name, found))
                short |= not suffices(syntax, found, whole=len(found) == len(cases))
    if not chosen.words and chosen.folder == KEPT:
        found = earlier.rows()
        print("", earlier.table(found), sep="\n")
        rates += earlier.figures(found)
        short |= any(one.fault for pair in found.values() for one in pair)
    print("", *rates, sep="\n")
    return int(short)


def _classes(folder: Path) -> dict[str, dict[str, str]]:
    path = folder / "classes.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _verdict(folder: Path, syntax: Syntax, task: str) -> Verdict:
    path = folder / syntax.name / f"{task}{syntax.suffix}"
    if not path.exists():
        return Verdict(False, False, "no program")
    return judge(path.read_text(encoding="utf-8"), syntax.suffix, CASES[task])


def _row(syntax: Syntax, task: str, verdict: Verdict, cause: str, *, markdown: bool) -> str:
    yes = {True: "yes", False: "no"}
    kind = " ".join(filter(None, (verdict.kind, f"[{verdict.code}]" if verdict.code else "")))
    kind = f"{kind}; {cause}" if cause else kind
    if markdown:
        cells = (
            task,
            yes[verdict.checks],
            yes[verdict.works],
            kind,
            verdict.why.replace("|", "\\|"),
        )
        return f"| {' | '.join(cells)} |"
    return (
        f"{task} {syntax.shown:6}  checks {yes[verdict.checks]:3}  works {yes[verdict.works]:3}"
        f"  {kind}{': ' if verdict.why else ''}{verdict.why}".rstrip()
    )


def _rate(syntax: Syntax, name: str, verdicts: list[Verdict]) -> str:
    checks, works = _counts(verdicts)
    check = f"{checks} of {len(verdicts)} check at first (wanted {syntax.checks} of 30)"
    work = f"{works} work as written (wanted {syntax.works} of 30)"
    return f"{syntax.shown}, {name}: {check}, {work}"


def suffices(syntax: Syntax, verdicts: list[Verdict], *, whole: bool) -> bool:
    """Of a whole set the rates count; of a part of it, every program has to work."""
    checks, works = _counts(verdicts)
    if not whole:
        return works == len(verdicts)
    return checks >= syntax.checks and works >= syntax.works


def _counts(verdicts: list[Verdict]) -> tuple[int, int]:
    return sum(one.checks for one in verdicts), sum(one.works for one in verdicts)


if __name__ == "__main__":
    sys.exit(main())
