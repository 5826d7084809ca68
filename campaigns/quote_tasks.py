"""The thirty programs that were written from the card, in worlds of ordinary sizes.

A case gives the arguments and the world of one program: files, pages, commands, what a person
says. The models answer in words of chance by the shape that is asked for: a text of 30 to 90 of a
hundred of its tokens, a text in a record of 3 to 25 words. So no answer is made for what a quote
takes it for. Budgets of `main` are taken out, as a quote that repeats them says nothing.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, cast

from msgspec import Struct

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "tests/lang/card_programs"
_MAIN_BUDGET = re.compile(r"^(fn main\(.*) budget \$[0-9.]+ \{$", re.MULTILINE)
WORDS = (
    "the order came late and nobody at the desk could say why so we asked again and were told that "
    "the parcel had been sent to another city where it waited for a signature until the driver "
    "took it back to the depot on the north side of the river"
).split()


class TaskCase(Struct, frozen=True):
    """`edits` make the program of the card one that checks and runs; `commands` are what commands
    say by their first words, `people` what a person says, one after the other; `fields` are what
    fields of answers are that a program decides by."""

    arguments: tuple[Any, ...] = ()
    files: Mapping[str, str] = {}
    edits: tuple[tuple[str, str], ...] = ()
    commands: Mapping[str, str | tuple[str, ...]] = {}
    page: str = ""
    status: int = 200
    people: tuple[str, ...] = ()
    fields: Mapping[str, tuple[Any, ...]] = {}


def source_of(task: str, case: TaskCase) -> str:
    """Return the program of a task, without a budget of its `main`."""
    text = (PROGRAMS / f"{task}.vega").read_text(encoding="utf-8")
    for old, new in case.edits:
        assert old in text, (task, old)
        text = text.replace(old, new)
    return _MAIN_BUDGET.sub(r"\1 {", text)


def words(count: int, seed: int = 0) -> str:
    """Return so many words."""
    chance = Random(seed)
    return " ".join(chance.choice(WORDS) for _ in range(count))


# Answers of chance, by the shape that is asked for.


def _resolved(schema: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    """Return the shape itself, and the first where there are several."""
    if "$ref" in schema:
        found = whole
        for part in str(schema["$ref"]).removeprefix("#/").split("/"):
            found = found[part]
        return _resolved(found, whole)
    if "anyOf" in schema:
        return _resolved(cast("list[dict[str, Any]]", schema["anyOf"])[0], whole)
    kinds: Any = schema.get("type")
    return {**schema, "type": kinds[0] if isinstance(kinds, list) else kinds}


class Answers:
    """The answers of all models of one run."""

    def __init__(self, case: TaskCase, seed: int) -> None:
        self._case, self._chance = case, Random(seed)
        self._turns: dict[str, int] = {}

    def text(self, max_tokens: int) -> str:
        share = self._chance.uniform(0.3, 0.9)
        return self._words(max(1, int(max_tokens * share / 1.3)))

    def of_schema(self, schema: dict[str, Any], max_tokens: int) -> str:
        """Return JSON of this shape; shorter, until it fits its tokens."""
        for most in (25, 12, 6, 3, 1):
            text = json.dumps(self._value(schema, schema, "", most))
            if len(text) <= max_tokens * 4:
                break
        return text

    def _value(self, schema: dict[str, Any], whole: dict[str, Any], name: str, most: int) -> Any:
        if name in self._case.fields:
            return self._decided(name)
        schema = _resolved(schema, whole)
        if "enum" in schema:
            return self._chance.choice(cast("list[Any]", schema["enum"]))
        match schema["type"]:
            case "object":
                parts = cast("dict[str, dict[str, Any]]", schema.get("properties", {}))
                return {key: self._value(each, whole, key, most) for key, each in parts.items()}
            case "array":
                full = schema.get("maxItems", 6)
                count = self._chance.randint((full + 1) // 2, full)
                return [self._value(schema["items"], whole, "", most) for _ in range(count)]
            case "integer":
                return self._chance.randint(1, 100)
            case "number":
                return round(self._chance.random(), 2)
            case "boolean":
                return self._chance.random() < 0.5
            case _:
                return self._words(self._chance.randint(1 if most < 3 else 3, max(most, 3)))

    def _decided(self, name: str) -> Any:
        at = self._turns[name] = self._turns.get(name, -1) + 1
        said = self._case.fields[name]
        return said[min(at, len(said) - 1)]

    def _words(self, count: int) -> str:
        return " ".join(self._chance.choice(WORDS) for _ in range(count))


# The cases.


_HOSTS = ("program may [net::get]", 'program may [net::get] allowed_hosts ["*.example.com"]')
_CATALOGUE = json.dumps({f"key_{nth}": words(5, nth) for nth in range(40)})
_GIT = 'program may [process::exec, fs::write] allowed_commands ["git **"]'

CASES: dict[str, TaskCase] = {
    "01": TaskCase(
        ([f"notes/{nth}.txt" for nth in range(50)],),
        {f"notes/{nth}.txt": words(500 + nth, nth) for nth in range(50)},
    ),
    "02": TaskCase(
        ("main",),
        edits=(("program may [process::exec, fs::write]", _GIT),),
        commands={
            "git diff --name-only": "\n".join(f"src/part_{nth}.py" for nth in range(12)) + "\n",
            "git diff": words(600),
        },
    ),
    "03": TaskCase(([{"id": f"t{nth}", "text": words(60, nth)} for nth in range(100)],)),
    "04": TaskCase(
        ("Who built the first bridge over the Rhine?",),
        edits=(_HOSTS,),
        page=words(3_000),
        fields={"done": (False, False, False, True)},
    ),
    "05": TaskCase(("This house would ban cars from the inner city.",)),
    "06": TaskCase(
        ("src/parser.py",),
        {"src/parser.py": words(400)},
        edits=(
            ('exec("pytest -q 2>&1 || true")', 'exec::run("pytest -q").out'),
            (
                "program may [process::exec, fs::read, fs::write]",
                'program may [process::exec, fs::read, fs::write] allowed_commands ["pytest **"]',
            ),
        ),
        commands={"pytest": (words(700) + " 2 failed", words(500) + " 1 failed", "all passed")},
    ),
    "07": TaskCase((), {"catalogue.json": _CATALOGUE}),
    "08": TaskCase(
        (words(250),),
        fields={"quantity": (0,), "total": (7.0, 0.0)},
    ),
    "09": TaskCase(
        ("Ask for a later date of delivery, and say why.", "sales@example.com"),
        edits=(
            (
                "program may [net::post]",
                'program may [net::post] allowed_hosts ["mail.example.com"]',
            ),
        ),
        people=("no", words(15), "yes"),
        status=202,
    ),
    "10": TaskCase(
        (),
        edits=(
            ("said = human::ask(answer, 600s);", 'said = human::ask(answer, 600s) ?? "bye";'),
            (
                'let said = human::ask("What would you like to know?", 600s);',
                'let said = human::ask("What would you like to know?", 600s) ?? "bye";',
            ),
        ),
        people=(*(words(12, nth) for nth in range(3)), "bye"),
    ),
    "11": TaskCase(
        ("Where is the depot?", [f"pages/{nth}.txt" for nth in range(60)]),
        {f"pages/{nth}.txt": words(250, nth) for nth in range(60)},
        fields={"found": (False,)},
    ),
    "12": TaskCase(("How many weeks have seven months of 30 days?",)),
    "13": TaskCase(
        ("clarity", [words(20, nth) for nth in range(16)]),
        edits=(("left = next;", "left = next as [str; 16];"),),
    ),
    "14": TaskCase(("Move the office to another city by spring.",)),
    "15": TaskCase(("docs/long.txt",), {"docs/long.txt": words(32_000)}),
    "16": TaskCase(
        ("data/people.csv",),
        {"data/people.csv": "name,mail\n" + "\n".join(words(9, nth) for nth in range(60)) + "\n"},
        fields={"email": ("a@example.com", "b@example.com", "none")},
    ),
    "17": TaskCase(
        ("src",),
        {f"src/test_{nth}.py": words(300, nth) for nth in range(13)},
    ),
    "18": TaskCase(
        ([f"https://feeds.example.com/{nth}" for nth in range(8)],),
        edits=(
            (
                "program may [net::get, fs::write]",
                'program may [net::get, fs::write] allowed_hosts ["*.example.com"]',
            ),
            ("best = best + [i];", "best = (best + [i]) as [Item; 5];"),
        ),
        page=words(2_500),
    ),
    "19": TaskCase(
        ("https://api.example.com/health", "https://hooks.example.com/x", 0.2),
        edits=(
            (
                "program may [net::get, net::post]",
                'program may [net::get, net::post] allowed_hosts ["*.example.com"]',
            ),
            ("if answer.status >= 300 {", "if answer.status >= 600 {"),
        ),
        page=words(100),
        status=500,
    ),
    "20": TaskCase(
        ([words(10, nth) for nth in range(10)],),
        {f"docs/{nth}.md": words(400, nth) for nth in range(12)},
    ),
    "21": TaskCase(
        ([words(18, nth) for nth in range(50)],),
        fields={"confidence": (0.9, 0.8, 0.95, 0.9, 0.5)},
    ),
    "22": TaskCase(
        (
            [
                {"category": f"c{nth % 5}", "question": words(20, nth), "expected": words(12, nth)}
                for nth in range(100)
            ],
        ),
        fields={"score": (4, 3, 5)},
    ),
    "23": TaskCase(
        ("The history of the canal.",),
        fields={"clarity": (6, 7, 8), "depth": (6, 7, 9), "style": (7, 8, 8)},
    ),
    "24": TaskCase((words(2_000),)),
    "25": TaskCase(
        ([words(150, nth) for nth in range(32)],),
        edits=(
            (
                "level = [for pair in list::chunks(level, 2) { merge(pair) }];",
                "level = [for p in list::chunks(level, 2) { merge(p as [str; 2]) }] as [str; 32];",
            ),
        ),
    ),
    "26": TaskCase(("Should schools teach with tablets?",)),
    "27": TaskCase(("a folding bicycle",)),
    "28": TaskCase((words(700),), edits=(_HOSTS,), page=words(1_500)),
    "29": TaskCase(
        ("v1.2",),
        edits=(
            ("program may [process::exec, fs::write]", _GIT),
            (
                '{text}", 1800s);\n        if said',
                '{text}", 1800s) ?? "ok";\n        if said',
            ),
        ),
        commands={"git log": "\n".join(words(8, nth) for nth in range(12)) + "\n"},
        people=("ok",),
    ),
    "30": TaskCase(([words(20, nth) for nth in range(20)],)),
}


# What each run comes to: its calls, and its result in short.


OUTCOMES: dict[str, str] = {
    "01": '51: "we for the it been waited to … c9493216',
    "02": "12: 37",
    "03": '200: {"t0": "river the we city late… 8be1bd9a',
    "04": '8: "it again and we why told coul… 1b258af2',
    "05": '7: {"winner": "con", "reason": "n… 374c1d16',
    "06": "2: true",
    "07": "120: 120",
    "08": '2: {"number": "order the another … 1b3a3673',
    "09": "2: true",
    "10": "3: 3",
    "11": "60: null",
    "12": '7: {"result": "waited the sent we… fa8079f0',
    "13": '15: "back and of had the of the si… efd0ca2d',
    "14": '16: "for at depot desk why the ord… b05a1e3c',
    "15": '20: "were so until signature of un… 89b416f8',
    "16": "60: 2",
    "17": '26: ["src/test_1.py: where until l… 59cef253',
    "18": '14: "# Newsletter\\n\\nto say depot … 9cc3213e',
    "19": "1: 1.0",
    "20": '40: {"sent the another came and a … 5d086bba',
    "21": '96: ["driver the and and the for t… 55d8d588',
    "22": '200: {"c0": 4.95, "c1": 4.9, "c2": … 49520745',
    "23": '6: "again sent city to say the wh… fea6a46f',
    "24": '1: "## a at river say signature t… bd62db1b',
    "25": '31: "could the the and it north ci… 88308ca9',
    "26": '13: "the signature depot been it a… 3eb8fdd7',
    "27": '13: [{"persona": {"name": "the and… b296eeb8',
    "28": '7: "| claim | verdict | source |\\… 44e7b7de',
    "29": '15: "# Changes since v1.2\\n\\n## fe… c55adb7d',
    "30": '20: ["the and and the for the wher… 86c9c660',
}
