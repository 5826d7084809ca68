# pyright: basic, reportMissingImports=false
"""Each program as a graph of LangGraph; here those with branches, in `langgraph_items` the others.

A step of a graph ends when all of its nodes have ended.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Annotated, Any, TypedDict

from langchain.agents import create_agent
from langchain.messages import HumanMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

from benchmarks.speedups.cases import MODEL, System, document
from benchmarks.speedups.langgraph_items import ItemGraphs, Items, mapped
from benchmarks.speedups.shapes import Questions, Ruling, Score

__all__ = ["open_programs"]

KEY = "sk-test-0123456789"


async def open_programs(
    url: str, stack: AsyncExitStack
) -> Mapping[str, Callable[..., Awaitable[Any]]]:
    graphs = Graphs(ChatOpenAI(model=MODEL, base_url=f"{url}/v1", api_key=KEY, max_tokens=400))
    return {
        "review": graphs.review(),
        "vote": graphs.vote(),
        "digest": graphs.digest(),
        "thoughts": graphs.thoughts(),
        "research": graphs.research(),
        "debate": graphs.debate(),
        "translate": graphs.translate(),
        "extract": graphs.extract(),
        "router": graphs.router(),
        "article": graphs.article(),
    }


class Graphs(ItemGraphs):
    def thoughts(self):
        async def each(asked: tuple[str, int]):
            path, n = asked
            thought = await self.ask(System.THINKER, f"{path}\nThought {n + 1}:")
            text = f"{path}\n{thought}"
            return {"made": [(text, (await self.typed(System.SCORER, text, Score)).points)]}

        async def end(state: Items):
            return {"result": sorted(state["made"], key=lambda path: -path[1])}

        level = mapped(each, end)

        async def first(state: Items):
            grown = await level.ainvoke({"given": [(state["given"][0], n) for n in range(3)]})
            return {"given": [path for path, _ in grown["result"][:2]]}

        async def second(state: Items):
            given = [(path, n) for path in state["given"] for n in range(3)]
            grown = await level.ainvoke({"given": given})
            return {"given": [grown["result"][0][0]]}

        async def solve(state: Items):
            return {"result": await self.ask(System.SOLVER, state["given"][0])}

        tree = StateGraph(Items).add_sequence([first, second, solve])
        graph = tree.add_edge(START, "first").compile()

        async def run(problem: str):
            return (await graph.ainvoke({"given": [problem]}))["result"]

        return run

    def research(self):
        def read(name: str) -> str:
            """The text of one document."""
            return document(name)

        agent = create_agent(self.model, tools=[read], system_prompt=System.RESEARCHER.value)

        async def each(item: str):
            said = await agent.ainvoke({"messages": [HumanMessage(item)]})
            return {"made": [f"{item} {said['messages'][-1].content}"]}

        async def end(state: Items):
            return {"result": "\n".join(state["made"])}

        look_up = mapped(each, end)

        async def plan(state: Items):
            made = await self.typed(System.PLANNER, state["result"], Questions)
            return {"given": made.items}

        async def notes(state: Items):
            return {"made": [(await look_up.ainvoke({"given": state["given"]}))["result"]]}

        async def write(state: Items):
            text = f"{state['result']}\n{state['made'][0]}"
            return {"result": await self.ask(System.REPORT, text)}

        steps = StateGraph(Items).add_sequence([plan, notes, write])
        graph = steps.add_edge(START, "plan").compile()

        async def run(question: str):
            return (await graph.ainvoke({"result": question}))["result"]

        return run

    def debate(self):
        sides = {"friend": System.FRIEND, "sceptic": System.SCEPTIC, "builder": System.BUILDER}

        class Said(TypedDict):
            question: str
            first: Annotated[dict[str, str], lambda a, b: a | b]
            second: Annotated[dict[str, str], lambda a, b: a | b]
            ruling: Ruling

        def opening(side: str):
            async def speak(state: Said):
                return {"first": {side: await self.ask(sides[side], state["question"])}}

            return speak

        def answer(side: str):
            async def speak(state: Said):
                others = "\n".join(state["first"][name] for name in sides if name != side)
                own = f"{state['question']}\nYou said: {state['first'][side]}"
                text = f"{own}\nThe others:\n{others}"
                return {"second": {side: await self.ask(sides[side], text)}}

            return speak

        async def judge(state: Said):
            said = [state[part][side] for part in ("first", "second") for side in sides]
            text = "\n".join([state["question"], *said])
            return {"ruling": await self.typed(System.JUDGE, text, Ruling)}

        graph = StateGraph(Said)
        graph.add_node("judge", judge)
        for side in sides:
            graph.add_node(side, opening(side))
            graph.add_node(f"{side} again", answer(side))
            graph.add_edge(START, side)
        for side in sides:
            graph.add_edge(list(sides), f"{side} again")
        graph.add_edge([f"{side} again" for side in sides], "judge")
        compiled = graph.add_edge("judge", END).compile()

        async def run(question: str):
            return (await compiled.ainvoke({"question": question}))["ruling"].model_dump()

        return run

    def article(self):
        steps = {
            "outline": (System.OUTLINE, "topic"),
            "draft": (System.AUTHOR, "outline"),
            "picture": (System.ILLUSTRATOR, "outline"),
            "edited": (System.SHORTER, "draft"),
            "facts": (System.FACTS, "draft"),
            "text": (System.SPELLING, "edited"),
            "title": (System.TITLE, "text"),
        }

        class State(TypedDict):
            topic: str
            outline: str
            draft: str
            picture: str
            edited: str
            facts: str
            text: str
            title: str

        def step(name: str, system: System, source: str):
            async def do(state: Any):
                return {name: await self.ask(system, state[source])}

            return do

        graph = StateGraph(State)
        for name, (system, source) in steps.items():
            graph.add_node(f"make {name}", step(name, system, source))
            graph.add_edge(START if source == "topic" else f"make {source}", f"make {name}")
        compiled = graph.compile()

        async def run(topic: str):
            state = await compiled.ainvoke({"topic": topic})
            return {name: state[name] for name in ("title", "text", "picture", "facts")}

        return run
