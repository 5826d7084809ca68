# pyright: basic, reportMissingImports=false
"""Programs that do the same with every item, as graphs of LangGraph: a `Send` for each.

What belongs to one item is one node, so that no item waits for another between its steps.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from operator import add
from typing import Annotated, Any, TypedDict

from langchain.messages import HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from pydantic import BaseModel

from benchmarks.speedups.cases import System, document
from benchmarks.speedups.shapes import Order, Route, Solution, Verdict

__all__ = ["ItemGraphs", "Items", "mapped"]

Node = Callable[[Any], Awaitable[dict[str, Any]]]


class Items(TypedDict):
    """`given` are sent to nodes, each by itself; what these make is gathered in `made`."""

    given: list[Any]
    made: Annotated[list[Any], add]
    result: Any


def mapped(each: Node, end: Node) -> Any:
    """Every item of `given` by `each`, at once; then `end`."""
    graph = StateGraph(Items)
    graph.add_node("each", each)
    graph.add_node("end", end)
    graph.add_conditional_edges(
        START, lambda state: [Send("each", item) for item in state["given"]], ["each"]
    )
    graph.add_edge("each", "end")
    graph.add_edge("end", END)
    return graph.compile()


class ItemGraphs:
    def __init__(self, model: ChatOpenAI) -> None:
        self.model = model

    async def ask(self, system: System, text: str) -> str:
        said = [SystemMessage(system.value), HumanMessage(text)]
        return (await self.model.ainvoke(said)).content

    async def typed(self, system: System, text: str, shape: type[BaseModel]) -> Any:
        model = self.model.with_structured_output(shape, method="json_schema")
        return await model.ainvoke([SystemMessage(system.value), HumanMessage(text)])

    def review(self):
        async def each(name: str):
            found = await self.ask(System.REVIEWER, f"{name}:\n{document(name)}")
            return {"made": [f"{name}: {found}"]}

        async def end(state: Items):
            return {"result": await self.ask(System.FINDINGS, "\n".join(state["made"]))}

        graph = mapped(each, end)

        async def run(names: list[str]):
            return (await graph.ainvoke({"given": names}))["result"]

        return run

    def vote(self):
        async def each(text: str):
            return {"made": [(await self.typed(System.SAMPLE, text, Solution)).answer]}

        async def end(state: Items):
            return {"result": Counter(state["made"]).most_common(1)[0][0]}

        graph = mapped(each, end)

        async def run(problem: str, samples: int):
            tries = [f"{problem}\nTry {n + 1}." for n in range(samples)]
            return (await graph.ainvoke({"given": tries}))["result"]

        return run

    def digest(self):
        async def note(name: str):
            return {"made": [await self.ask(System.SUMMARISER, document(name))]}

        async def joined(state: Items):
            text = "Join these:\n" + "\n".join(state["made"])
            return {"result": await self.ask(System.SUMMARISER, text)}

        chapter = mapped(note, joined)

        async def each(names: list[str]):
            return {"made": [(await chapter.ainvoke({"given": names}))["result"]]}

        whole = mapped(each, joined)

        async def run(chapters: list[list[str]]):
            return (await whole.ainvoke({"given": chapters}))["result"]

        return run

    def translate(self):
        async def each(line: str):
            text = await self.ask(System.TRANSLATOR, line)
            verdict = await self.typed(System.CHECKER, f"{line}\n{text}", Verdict)
            if not verdict.same:
                again = f"{line}\nNot: {text}\nBecause: {verdict.why}"
                text = await self.ask(System.TRANSLATOR, again)
            return {"made": [text]}

        async def end(state: Items):
            return {"result": state["made"]}

        graph = mapped(each, end)

        async def run(lines: list[str]):
            return (await graph.ainvoke({"given": lines}))["result"]

        return run

    def extract(self):
        async def each(text: str):
            return {"made": [await self.typed(System.READER, text, Order)]}

        async def end(state: Items):
            cents: Counter[str] = Counter()
            for order in state["made"]:
                cents[order.customer] += order.cents
            table = "\n".join(f"{name}: {cents[name]}" for name in sorted(cents))
            pieces = sum(order.pieces for order in state["made"])
            note = await self.ask(System.SUMS, f"{pieces} pieces\n{table}")
            return {"result": {"table": table, "note": note}}

        graph = mapped(each, end)

        async def run(orders: list[str]):
            return (await graph.ainvoke({"given": orders}))["result"]

        return run

    def router(self):
        async def each(question: str):
            desk = (await self.typed(System.ROUTER, question, Route)).desk
            answer = "That has to be asked on the phone."
            if desk == "orders":
                text = document("shipping") + document("returns")
                answer = await self.ask(System.CLERK, f"{text}\n{question}")
            elif desk == "money":
                text = document("payment")
                answer = await self.ask(System.ACCOUNTANT, f"{text}\n{question}")
            return {"made": [f"{question} {answer}"]}

        async def end(state: Items):
            return {"result": await self.ask(System.LETTER, "\n".join(state["made"]))}

        graph = mapped(each, end)

        async def run(questions: list[str]):
            return (await graph.ainvoke({"given": questions}))["result"]

        return run
