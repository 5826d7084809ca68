# pyright: basic, reportMissingImports=false, reportUnusedExpression=false
# ruff: noqa: B018
"""Each program as functions of APPL: `gen` gives a future, which is waited for where it is used.

A prompt that holds a future waits for it when the next `gen` takes it, so items with more than one
step are begun by `call`, APPL's own word for a function that runs beside. An expression on a line
of its own is said: the compiler of APPL sees to that.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from appl import SystemMessage, call, gen, init, ppl

from benchmarks.speedups.cases import CASES, MODEL, System, document
from benchmarks.speedups.shapes import Order, Questions, Route, Ruling, Score, Solution, Verdict

__all__ = ["open_programs"]

KEY = "sk-test-0123456789"
AT_ONCE = 64


async def open_programs(
    url: str, stack: AsyncExitStack
) -> Mapping[str, Callable[..., Awaitable[Any]]]:
    server = {"model": f"openai/{MODEL}", "base_url": f"{url}/v1", "api_key": KEY}
    init(
        settings={
            "logging": {"enable_stderr": False, "enable_file": False},
            "caching": {"enabled": False},
            "concurrency": {"llm_max_workers": AT_ONCE, "thread_max_workers": AT_ONCE},
        },
        default_servers={"default": "loopback"},
        servers={"loopback": server},
    )
    return {name: _beside(globals()[name]) for name in CASES}


def _beside(program: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    async def run(*arguments: Any) -> Any:
        return program(*arguments)

    return run


@ppl
def ask(system: System, text: Any):
    SystemMessage(system.value)
    text
    return gen(max_tokens=400)


@ppl
def typed(system: System, text: Any, shape: type):
    SystemMessage(system.value)
    text
    return gen(max_tokens=400, response_format=shape)


def review(names: list[str]) -> str:
    found = [ask(System.REVIEWER, f"{name}:\n{document(name)}") for name in names]
    lines = [f"{name}: {words}" for name, words in zip(names, found, strict=True)]
    return str(ask(System.FINDINGS, "\n".join(lines)))


def vote(problem: str, samples: int) -> int:
    tries = [typed(System.SAMPLE, f"{problem}\nTry {n + 1}.", Solution) for n in range(samples)]
    return Counter(t.response_obj.answer for t in tries).most_common(1)[0][0]


def joined(parts: list[Any]) -> Any:
    return ask(System.SUMMARISER, "Join these:\n" + "\n".join(str(part) for part in parts))


def chapter(names: list[str]) -> str:
    return str(joined([ask(System.SUMMARISER, document(name)) for name in names]))


def digest(chapters: list[list[str]]) -> str:
    return str(joined([call(chapter, names) for names in chapters]))


def thought(path: str, n: int) -> tuple[str, int]:
    said = ask(System.THINKER, f"{path}\nThought {n + 1}:")
    text = f"{path}\n{said}"
    return text, typed(System.SCORER, text, Score).response_obj.points


def grown(paths: list[str]) -> list[str]:
    made = [call(thought, path, n) for path in paths for n in range(3)]
    return [text for text, _ in sorted((m.val for m in made), key=lambda path: -path[1])]


def thoughts(problem: str) -> str:
    return str(ask(System.SOLVER, grown(grown([problem])[:2])[0]))


def read(name: str) -> str:
    """The text of one document.

    Args:
        name (str): which one
    """
    return document(name)


@ppl
def look_up(item: str):
    SystemMessage(System.RESEARCHER.value)
    item
    while True:
        answer = gen(max_tokens=400, tools=[read])
        answer
        if not answer.is_tool_call:
            return str(answer)
        answer.run_tool_calls()


def research(question: str) -> str:
    plan = typed(System.PLANNER, question, Questions).response_obj.items
    notes = [call(look_up, item) for item in plan]
    lines = [f"{item} {note}" for item, note in zip(plan, notes, strict=True)]
    return str(ask(System.REPORT, f"{question}\n" + "\n".join(lines)))


def debate(question: str) -> dict[str, str]:
    sides = (System.FRIEND, System.SCEPTIC, System.BUILDER)
    first = [ask(side, question) for side in sides]
    second: list[Any] = []
    for own, side in enumerate(sides):
        others = "\n".join(str(words) for i, words in enumerate(first) if i != own)
        text = f"{question}\nYou said: {first[own]}\nThe others:\n{others}"
        second.append(ask(side, text))
    said = "\n".join([question, *map(str, first), *map(str, second)])
    return typed(System.JUDGE, said, Ruling).response_obj.model_dump()


def translated(line: str) -> str:
    text = ask(System.TRANSLATOR, line)
    verdict = typed(System.CHECKER, f"{line}\n{text}", Verdict).response_obj
    if verdict.same:
        return str(text)
    return str(ask(System.TRANSLATOR, f"{line}\nNot: {text}\nBecause: {verdict.why}"))


def translate(lines: list[str]) -> list[str]:
    return [done.val for done in [call(translated, line) for line in lines]]


def extract(orders: list[str]) -> dict[str, str]:
    read_in = [typed(System.READER, text, Order) for text in orders]
    cents: Counter[str] = Counter()
    for order in read_in:
        cents[order.response_obj.customer] += order.response_obj.cents
    table = "\n".join(f"{name}: {cents[name]}" for name in sorted(cents))
    pieces = sum(order.response_obj.pieces for order in read_in)
    return {"table": table, "note": str(ask(System.SUMS, f"{pieces} pieces\n{table}"))}


def routed(question: str, orders: str, money: str) -> str:
    desk = typed(System.ROUTER, question, Route).response_obj.desk
    answer: Any = "That has to be asked on the phone."
    if desk == "orders":
        answer = ask(System.CLERK, f"{orders}\n{question}")
    elif desk == "money":
        answer = ask(System.ACCOUNTANT, f"{money}\n{question}")
    return f"{question} {answer}"


def router(questions: list[str]) -> str:
    orders, money = document("shipping") + document("returns"), document("payment")
    answers = [call(routed, question, orders, money) for question in questions]
    return str(ask(System.LETTER, "\n".join(str(answer) for answer in answers)))


def article(topic: str) -> dict[str, str]:
    outline = ask(System.OUTLINE, topic)
    picture = ask(System.ILLUSTRATOR, outline)
    draft = ask(System.AUTHOR, outline)
    facts = ask(System.FACTS, draft)
    edited = ask(System.SHORTER, draft)
    text = ask(System.SPELLING, edited)
    title = ask(System.TITLE, text)
    return {"title": str(title), "text": str(text), "picture": str(picture), "facts": str(facts)}
