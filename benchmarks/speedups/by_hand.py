"""Each program as somebody writes it who wants it fast: httpx2, and a task for all that can be one.

What an answer needs is awaited where it is needed and not before; nothing else is waited for.
"""

import asyncio
import json
from asyncio import gather
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import httpx2

from benchmarks.speedups.cases import MODEL, System, document

__all__ = ["open_programs"]

_READ = {
    "type": "function",
    "function": {
        "name": "read",
        "description": "The text of one document.",
        "parameters": {
            "type": "object",
            "properties": {"name": {"type": "string"}},
            "required": ["name"],
        },
    },
}
_TEXT, _INT = {"type": "string"}, {"type": "integer"}


async def open_programs(
    url: str, stack: AsyncExitStack
) -> Mapping[str, Callable[..., Awaitable[Any]]]:
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    client = httpx2.AsyncClient(base_url=url, limits=limits, timeout=60, trust_env=False)
    hand = ByHand(await stack.enter_async_context(client))
    return {
        "review": hand.review,
        "vote": hand.vote,
        "digest": hand.digest,
        "thoughts": hand.thoughts,
        "research": hand.research,
        "debate": hand.debate,
        "translate": hand.translate,
        "extract": hand.extract,
        "router": hand.router,
        "article": hand.article,
    }


class ByHand:
    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def _call(self, said: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        body = {"model": MODEL, "messages": said, "max_completion_tokens": 400, **more}
        reply = await self._client.post("/v1/chat/completions", json=body)
        reply.raise_for_status()
        return reply.json()["choices"][0]["message"]

    async def _ask(self, system: System, text: str, **more: Any) -> str:
        said = [{"role": "system", "content": system}, {"role": "user", "content": text}]
        return (await self._call(said, **more))["content"]

    async def _typed(self, system: System, text: str, **properties: Any) -> Any:
        schema = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
        shape = {"name": "answer", "schema": schema, "strict": True}
        wanted = {"type": "json_schema", "json_schema": shape}
        return json.loads(await self._ask(system, text, response_format=wanted))

    async def review(self, names: list[str]) -> str:
        texts = [f"{name}:\n{document(name)}" for name in names]
        found = await gather(*(self._ask(System.REVIEWER, text) for text in texts))
        lines = [f"{name}: {words}" for name, words in zip(names, found, strict=True)]
        return await self._ask(System.FINDINGS, "\n".join(lines))

    async def vote(self, problem: str, samples: int) -> int:
        tries = (f"{problem}\nTry {n + 1}." for n in range(samples))
        solutions = await gather(*(self._typed(System.SAMPLE, t, answer=_INT) for t in tries))
        return Counter(solution["answer"] for solution in solutions).most_common(1)[0][0]

    async def digest(self, chapters: list[list[str]]) -> str:
        return await self._joined(await gather(*(self._chapter(names) for names in chapters)))

    async def _chapter(self, names: list[str]) -> str:
        notes = (self._ask(System.SUMMARISER, document(name)) for name in names)
        return await self._joined(await gather(*notes))

    async def _joined(self, parts: list[str]) -> str:
        return await self._ask(System.SUMMARISER, "Join these:\n" + "\n".join(parts))

    async def thoughts(self, problem: str) -> str:
        first = _best_first(await gather(*(self._thought(problem, n) for n in range(3))))[:2]
        second = (self._thought(path, n) for path, _ in first for n in range(3))
        return await self._ask(System.SOLVER, _best_first(await gather(*second))[0][0])

    async def _thought(self, path: str, n: int) -> tuple[str, int]:
        thought = await self._ask(System.THINKER, f"{path}\nThought {n + 1}:")
        text = f"{path}\n{thought}"
        return text, (await self._typed(System.SCORER, text, points=_INT))["points"]

    async def research(self, question: str) -> str:
        items = {"type": "array", "items": _TEXT}
        plan = (await self._typed(System.PLANNER, question, items=items))["items"]
        notes = await gather(*(self._look_up(item) for item in plan))
        lines = [f"{item} {note}" for item, note in zip(plan, notes, strict=True)]
        return await self._ask(System.REPORT, f"{question}\n" + "\n".join(lines))

    async def _look_up(self, item: str) -> str:
        said: list[dict[str, Any]] = [
            {"role": "system", "content": System.RESEARCHER},
            {"role": "user", "content": item},
        ]
        while True:
            answer = await self._call(said, tools=[_READ])
            if not answer.get("tool_calls"):
                return answer["content"]
            said.append(answer)
            for call in answer["tool_calls"]:
                text = document(json.loads(call["function"]["arguments"])["name"])
                said.append({"role": "tool", "tool_call_id": call["id"], "content": text})

    async def debate(self, question: str) -> Any:
        sides = (System.FRIEND, System.SCEPTIC, System.BUILDER)
        first = await gather(*(self._ask(side, question) for side in sides))
        again = (self._again(question, i, side, first) for i, side in enumerate(sides))
        second = await gather(*again)
        return await self._typed(
            System.JUDGE, "\n".join([question, *first, *second]), winner=_TEXT, why=_TEXT
        )

    async def _again(self, question: str, own: int, side: System, said: list[str]) -> str:
        others = "\n".join(words for i, words in enumerate(said) if i != own)
        text = f"{question}\nYou said: {said[own]}\nThe others:\n{others}"
        return await self._ask(side, text)

    async def translate(self, lines: list[str]) -> list[str]:
        return await gather(*(self._translated(line) for line in lines))

    async def _translated(self, line: str) -> str:
        text = await self._ask(System.TRANSLATOR, line)
        verdict = await self._typed(
            System.CHECKER, f"{line}\n{text}", same={"type": "boolean"}, why=_TEXT
        )
        if verdict["same"]:
            return text
        again = f"{line}\nNot: {text}\nBecause: {verdict['why']}"
        return await self._ask(System.TRANSLATOR, again)

    async def extract(self, orders: list[str]) -> dict[str, str]:
        shape = {"customer": _TEXT, "pieces": _INT, "cents": _INT}
        read = await gather(*(self._typed(System.READER, text, **shape) for text in orders))
        cents: Counter[str] = Counter()
        for order in read:
            cents[order["customer"]] += order["cents"]
        table = "\n".join(f"{name}: {cents[name]}" for name in sorted(cents))
        pieces = sum(order["pieces"] for order in read)
        return {"table": table, "note": await self._ask(System.SUMS, f"{pieces} pieces\n{table}")}

    async def router(self, questions: list[str]) -> str:
        orders, money = document("shipping") + document("returns"), document("payment")
        answers = await gather(*(self._routed(q, orders, money) for q in questions))
        return await self._ask(System.LETTER, "\n".join(answers))

    async def _routed(self, question: str, orders: str, money: str) -> str:
        desk = (await self._typed(System.ROUTER, question, desk=_TEXT))["desk"]
        answer = "That has to be asked on the phone."
        if desk == "orders":
            answer = await self._ask(System.CLERK, f"{orders}\n{question}")
        elif desk == "money":
            answer = await self._ask(System.ACCOUNTANT, f"{money}\n{question}")
        return f"{question} {answer}"

    async def article(self, topic: str) -> dict[str, str]:
        outline = await self._ask(System.OUTLINE, topic)
        async with asyncio.TaskGroup() as tasks:
            picture = tasks.create_task(self._ask(System.ILLUSTRATOR, outline))
            draft = await self._ask(System.AUTHOR, outline)
            facts = tasks.create_task(self._ask(System.FACTS, draft))
            edited = await self._ask(System.SHORTER, draft)
            text = await self._ask(System.SPELLING, edited)
            title = await self._ask(System.TITLE, text)
        return {"title": title, "text": text, "picture": picture.result(), "facts": facts.result()}


def _best_first(paths: list[tuple[str, int]]) -> list[tuple[str, int]]:
    return sorted(paths, key=lambda path: -path[1])
