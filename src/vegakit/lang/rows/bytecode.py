"""The rows of a module as the machine sees it: by agents, host calls and functions.

What cannot be told from an instruction is taken to be everything: a send to a register that may
hold any agent has the rows of all of them.
"""

from collections.abc import Iterable
from functools import reduce

from vegakit.lang.bytecode import ANY_AGENT, AgentSpec, Function, Module, ToolSpec
from vegakit.lang.library import LIBRARY
from vegakit.lang.opcodes import Op
from vegakit.lang.rows.program import granted, library_row
from vegakit.lang.rows.records import NOTHING_TOUCHED, Effects, joined

__all__ = ["ModuleRows"]


class ModuleRows:
    def __init__(self, module: Module) -> None:
        self._module = module
        self._specs: dict[str, AgentSpec] = {spec.name: spec for spec in module.agents}
        self._tools: dict[str, ToolSpec] = {tool.name: tool for tool in module.tools}
        self._hosts: dict[tuple[str, int], Effects] = {}
        self._functions = [NOTHING_TOUCHED] * len(module.functions)
        self._agents = dict.fromkeys(self._specs, NOTHING_TOUCHED)
        while self._grow():
            pass
        self._all = _all(self._agents.values())

    def agent(self, name: str) -> Effects:
        return self._agents.get(name, self._all)

    def function(self, number: int) -> Effects:
        return self._functions[number]

    def spec(self, name: str) -> AgentSpec | None:
        return self._specs.get(name)

    def tools_of(self, spec: AgentSpec) -> list[int]:
        """The functions of those that are written in Vega."""
        return [self._tools[name].function for name in spec.tools if name in self._tools]

    def host(self, name: str, rights: int) -> Effects:
        key = name, rights
        if key not in self._hosts:
            in_library = name in LIBRARY
            self._hosts[key] = (
                library_row(name, self._module.rights[rights])
                if in_library
                else Effects(unknown=frozenset({name}))
            )
        return self._hosts[key]

    def instruction(self, function: int, at: int) -> Effects:
        """What one of them touches, with all that it calls."""
        of = self._module.functions[function]
        op, *operands = of.code[at]
        match op:
            case Op.CALL:
                return self.function(int(operands[1]))
            case Op.HOST:
                return self.host(self._module.constants[operands[1]], of.rights)
            case Op.ISSUE_SEND | Op.SEND_STREAM:
                return self.agent(self.called(function, at))
            case Op.PRINT:
                return Effects(prints=True)
            case _:
                return NOTHING_TOUCHED

    def called(self, function: int, at: int) -> str:
        """The agent whose name stands before a send; `ANY_AGENT` when the register of the send was
        not last written by it on a straight way."""
        code = self._module.functions[function].code
        register = code[at][2]
        for op, *operands in reversed(code[max(0, at - _BACK) : at]):
            if op in _WAYS:
                return ANY_AGENT
            if op == Op.AGENT and operands[0] == register:
                return str(self._module.constants[operands[1]])
            if register in _written(op, operands):
                return ANY_AGENT
        return ANY_AGENT

    def _grow(self) -> bool:
        """Rows only grow and there are finitely many names in them, so this ends."""
        before = [*self._functions], {**self._agents}
        for name, spec in self._specs.items():
            self._agents[name] = _all([self._agents[name], *self._of_agent(spec)])
        self._all = _all(self._agents.values())
        for number, function in enumerate(self._module.functions):
            self._functions[number] = _all(
                [
                    self._functions[number],
                    *(self.instruction(number, at) for at in _places(function)),
                ]
            )
        return before != (self._functions, self._agents)

    def _of_agent(self, spec: AgentSpec) -> Iterable[Effects]:
        yield Effects(
            sends=frozenset({spec.name}),
            servers=frozenset(spec.mcp),
            unknown=frozenset(f"yaml {name}" for name in spec.yaml),
        )
        for name in spec.tools:
            tool = self._tools.get(name)
            if tool is None:
                yield Effects(unknown=frozenset({name}))
                continue
            yield self._functions[tool.function]
            rights = self._module.rights[tool.rights]
            for capability in rights.capabilities:
                yield granted(capability, rights)


def _written(op: int, operands: list[int | list[int]]) -> set[int]:
    found: set[int] = set()
    for kind, operand in zip(Op(op).operands, operands, strict=True):
        if kind == "w" and isinstance(operand, int):
            found.add(operand)
        elif kind == "ws" and not isinstance(operand, int):
            found.update(operand)
    return found


def _places(function: Function) -> range:
    return range(len(function.code))


def _all(rows: Iterable[Effects]) -> Effects:
    return reduce(joined, rows, NOTHING_TOUCHED)


_BACK = 64
_WAYS = frozenset({Op.JUMP, Op.JUMP_IF, Op.JUMP_IF_NOT, Op.JUMP_IF_NULL, Op.NEXT, Op.RETURN})
