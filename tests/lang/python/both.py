"""One program run twice: by Python itself, with stand-ins for agents, and by Vega."""

import json
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any
from zlib import crc32

from pydantic import BaseModel

from vegakit.conversation import ModelRequest, Text
from vegakit.errors import AgentFailed, VegaError, error_name
from vegakit.lang import check_program, compile_program
from vegakit.program import Bounds, Printed
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime, VegaProgram
from vegakit.testing import VirtualClock, run_virtual
from vegakit.vm import restored, text_of

__all__ = ["Run", "by_python", "by_vega", "refused_by"]

_FILE = "program.py"
_MOST_CALLS = 3_000
_NAMES = ("IndexError", "KeyError", "ValueError", "ArithmeticError")


@dataclass
class Run:
    printed: list[str]
    result: str
    error: str
    calls: list[tuple[str, str]]


class _Refusal(AgentFailed):
    pass


class Failed(VegaError):  # noqa: N818
    pass


def refused_by(text: str) -> list[str]:
    _, found = check_program(text, _FILE, lambda _: None)
    return [one.code for one in found if one.severity == "error"]


def _answer(agent: str, message: str) -> Any:
    """The same for the same question; None where it fails."""
    number = crc32(f"{agent} {message}".encode())
    match message.partition(":")[0]:
        case "int":
            return number % 9 - 3
        case "bool":
            return number % 2 == 0
        case "point":
            return {"x": number % 5 - 1, "label": f"p{number % 3}", "note": None}
        case "fail" if number % 3 == 0:
            return None
        case _:
            return ("ok", "a b", f"{number % 100}", "An answer, a long one", "aa")[number % 5]


# By Vega


def by_vega(text: str) -> Run:
    checked, found = check_program(text, _FILE, lambda _: None)
    assert checked is not None, found
    program = VegaProgram(compile_program(checked), Path())
    run = Run([], "", "", [])
    run_virtual(_vega(program, run))
    return run


async def _vega(program: VegaProgram, run: Run) -> None:
    clock = VirtualClock()
    model = ScriptedModel([_reply] * _MOST_CALLS, clock=clock)
    bounds = Bounds(window=0)
    async with Runtime("$1000", models=lambda _: model, clock=clock, bounds=bounds) as rt:
        rt.on(Printed, lambda news: run.printed.append(news.text))
        try:
            run.result = text_of(restored(await rt.program.run(program, "main", [], None, None)))
        except VegaError as error:
            run.error = error_name(error)
        run.calls = _in_order(_asked(request) for request in model.requests)


def _in_order(calls: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Those of one `with parallel()` may come in any order."""
    groups = groupby(calls, key=lambda call: call[1].startswith("beside:"))
    return [call for beside, all_ in groups for call in (sorted(all_) if beside else all_)]


def _asked(request: ModelRequest) -> tuple[str, str]:
    parts = request.messages[-1].parts  # pyright: ignore[reportAttributeAccessIssue]
    return request.system, "".join(part.text for part in parts if isinstance(part, Text))


def _reply(request: ModelRequest) -> Any:
    system, message = _asked(request)
    answer = _answer(system, message)
    if answer is None:
        return {"error": "rejected"}
    if isinstance(answer, str):
        return answer
    return {"output": answer if isinstance(answer, dict) else {"result": answer}}


# By Python


class _Agent:
    def __init__(self, name: str, run: Run) -> None:
        self._name, self._run = name, run

    def __call__(self, message: str) -> str:
        return self.ask(message)

    def ask(self, message: str, returns: Callable[..., Any] | None = None) -> Any:
        self._run.calls.append((self._name, message))
        answer = _answer(self._name, message)
        if answer is None:
            raise _Refusal("rejected")
        return returns(**answer) if isinstance(answer, dict) and returns else answer


class _Vega:
    @staticmethod
    def text(value: Any) -> str:
        if isinstance(value, str):
            return value
        return json.dumps(value, default=asdict, separators=(",", ":"), ensure_ascii=False)


@contextmanager
def _nothing(**_: object) -> Generator[None]:
    yield


def by_python(text: str) -> Run:
    """Its imports of vegakit are left out, and stand-ins put in their place."""
    run = Run([], "", "", [])
    lines = [line for line in text.split("\n") if not line.startswith("from vegakit ")]

    def said(*values: object) -> None:
        run.printed.append(" ".join(map(str, values)))

    names: dict[str, Any] = {
        "__name__": "program",
        "Agent": lambda name, **_: _Agent(name, run),
        "AgentFailed": AgentFailed,
        "BaseModel": BaseModel,
        "Failed": Failed,
        "parallel": _nothing,
        "print": said,
        "program": lambda function: function,
        "session": _nothing,
        "vega": _Vega,
    }
    exec(compile("\n".join(lines), _FILE, "exec"), names)
    try:
        run.result = str(names["main"]())
    except Exception as error:  # noqa: BLE001
        run.error = _named(error)
    run.calls = _in_order(run.calls)
    return run


def _named(error: Exception) -> str:
    if isinstance(error, AgentFailed):
        return "AgentFailed"
    kinds = [kind.__name__ for kind in type(error).__mro__]
    return next((name for name in ("Failed", *_NAMES) if name in kinds), f"{error!r}")
