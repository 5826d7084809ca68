"""Random dataflow programs: one reducer that reads its graph from a seed, and what it must come to.

| a node | takes the values of earlier nodes, and                                                |
|--------|---------------------------------------------------------------------------------------|
| call   | asks a model, which answers after a random time; asks again if the call was cut off   |
| wait   | waits                                                                                 |
| pick   | chooses one of them, by the value of the first                                        |
| inner  | starts a process with a graph of its own, and asks it                                 |

Whatever is ready is begun at once, so several calls are in flight and end in any order.
"""

import asyncio
import random
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from vegakit.conversation import ModelReply, ModelRequest, Text, UserMessage
from vegakit.host import Agent, Reducer
from vegakit.policy import RetryRule
from vegakit.program import (
    AgentReply,
    AskProcess,
    DeferReply,
    ProcessSpec,
    Prompt,
    ReducerAction,
    Respond,
    ResultMessage,
    Returned as Answered,
    SendAfter,
    SpawnChild,
)
from vegakit.providers import ScriptedModel
from vegakit.records import digest128

__all__ = ["Node", "bodies", "evaluate", "flow", "graph", "hasty"]

LONGEST_CALL_S = 0.8
_KINDS, _WEIGHTS = ("call", "wait", "pick", "inner"), (7, 1, 2, 1)

State: TypeAlias = dict[str, Any]


class Node(NamedTuple):
    kind: str
    inputs: tuple[int, ...]
    ms: int


@lru_cache(maxsize=4_096)
def graph(seed: int, depth: int = 0) -> list[Node]:
    chance, nodes = random.Random(f"{seed} {depth}"), list[Node]()
    for number in range(chance.randint(2, 4) if depth else chance.randint(6, 12)):
        kinds = _KINDS if depth < 2 and number else _KINDS[:1]
        [kind] = chance.choices(kinds, _WEIGHTS[: len(kinds)])
        fewest = 0 if kind in ("call", "wait") else 1
        most = min(number, 3)
        inputs = tuple(chance.sample(range(number), chance.randint(min(fewest, most), most)))
        nodes.append(Node(kind, inputs, chance.randint(1, 100)))
    return nodes


def evaluate(seed: int, depth: int = 0) -> list[str]:
    """Plainly, one after the other: what every run must come to."""
    values = list[str]()
    for number, node in enumerate(graph(seed, depth)):
        given = [values[at] for at in node.inputs]
        if node.kind == "inner":
            values.append(_joined(evaluate(_seed_inside(seed, number), depth + 1)))
        else:
            values.append(_VALUES[node.kind](number, given))
    return values


def answer_to(question: str) -> str:
    return digest128(["answer", question])


def _question(number: int, given: list[str]) -> str:
    return f"{number}: {' '.join(given)}"


def _picked(number: int, given: list[str]) -> str:
    return given[int(given[0], 16) % len(given)]


_VALUES: Mapping[str, Callable[[int, list[str]], str]] = {
    "call": lambda number, given: answer_to(_question(number, given)),
    "wait": lambda number, given: digest128(["waited", number, given]),
    "pick": _picked,
}


def _joined(values: list[str]) -> str:
    return digest128(values)


def _seed_inside(seed: int, number: int) -> int:
    return seed * 100 + number


def flow(state: State | None, message: Any) -> tuple[State, list[ReducerAction]]:
    """The reducer; its first message is `{"seed", "depth", "path"}`."""
    return _react(state, message, lambda state, begun: begun)


def hasty(state: State | None, message: Any) -> tuple[State, list[ReducerAction]]:
    """A planted fault: what arrives first is taken for what was begun first."""
    return _react(state, message, lambda state, begun: state["begun"][0])


def _react(
    state: State | None,
    message: Any,
    place: Callable[[State, str], str],
) -> tuple[State, list[ReducerAction]]:
    if state is None:
        state = {**message, "done": {}, "begun": []}
        return _advance(state, [DeferReply("client")])
    number, value = _arrived(state, message)
    if value is None:
        return state, [_begin(state, int(number), again=True)]
    at = place(state, number)
    begun = [other for other in state["begun"] if other != at]
    return _advance({**state, "begun": begun, "done": {**state["done"], at: value}}, [])


def _arrived(state: State, message: Any) -> tuple[str, str | None]:
    """Which node, and its value; None if the call was cut off and has to be made again."""
    if not isinstance(message, ResultMessage):
        number = message["woke"]
        return number, _VALUES["wait"](int(number), _given(state, int(number)))
    if not isinstance(message.outcome, Answered):
        return message.ask, None
    value = message.outcome.value
    return message.ask, value.text if isinstance(value, AgentReply) else _joined(value)


def _advance(state: State, dos: list[ReducerAction]) -> tuple[State, list[ReducerAction]]:
    """Begins what is ready, until nothing more is."""
    nodes, state = graph(state["seed"], state["depth"]), {**state, "done": dict(state["done"])}
    for number in _ready(state, nodes):
        if nodes[number].kind == "pick":
            state["done"][str(number)] = _picked(number, _given(state, number))
            return _advance(state, dos)
        state = {**state, "begun": [*state["begun"], str(number)]}
        dos = [*dos, *_made(state, number), _begin(state, number)]
    if len(state["done"]) == len(nodes):
        dos = [*dos, Respond([state["done"][str(at)] for at in range(len(nodes))], "client")]
    return state, dos


def _ready(state: State, nodes: list[Node]) -> Iterator[int]:
    done, begun = state["done"], state["begun"]
    for number, node in enumerate(nodes):
        is_new = str(number) not in done and str(number) not in begun
        if is_new and all(str(at) in done for at in node.inputs):
            yield number


def _made(state: State, number: int) -> list[ReducerAction]:
    if graph(state["seed"], state["depth"])[number].kind != "inner":
        return []
    return [SpawnChild(ProcessSpec("flow"), f"n{number}")]


def _begin(state: State, number: int, *, again: bool = False) -> ReducerAction:
    node = graph(state["seed"], state["depth"])[number]
    if node.kind == "wait":
        return SendAfter(node.ms, {"woke": str(number)})
    if node.kind == "call":
        prompt = Prompt((Text(_question(number, _given(state, number))),))
        return AskProcess("oracle", prompt, str(number))
    assert not again, "a process inside ends only with its answer"
    path = f"{state['path']}/n{number}"
    seed, depth = _seed_inside(state["seed"], number), state["depth"] + 1
    return AskProcess(path, {"seed": seed, "depth": depth, "path": path}, str(number))


def _given(state: State, number: int) -> list[str]:
    inputs = graph(state["seed"], state["depth"])[number].inputs
    return [state["done"][str(at)] for at in inputs]


class Oracle(ScriptedModel):
    """Answers by the question alone, after a time that nobody knows."""

    def __init__(self) -> None:
        super().__init__(_answer)

    async def ask(self, request: ModelRequest) -> ModelReply:
        await asyncio.sleep(random.uniform(0, LONGEST_CALL_S))
        return await super().ask(request)


def _answer(request: ModelRequest) -> str:
    [message] = [each for each in request.messages if isinstance(each, UserMessage)]
    [part] = message.parts
    assert isinstance(part, Text)
    return answer_to(part.text)


def bodies(react: Any = flow) -> list[Any]:
    retry = RetryRule()
    return [Agent("oracle", Oracle(), max_tokens=10, retry=retry), Reducer("flow", react)]
