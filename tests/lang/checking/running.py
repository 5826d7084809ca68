"""Running checked programs with made-up answers, and values held strictly to types."""

from random import Random
from typing import Any

from vegakit.lang import (
    LIBRARY,
    Checked,
    ChoiceOf,
    FutureOf,
    ListOf,
    MapOf,
    Module,
    OptionalOf,
    Plain,
    ProcessOf,
    RecordOf,
    StreamOf,
    Type,
    compile_program,
)
from vegakit.vm import (
    AskBudget,
    CallHost,
    FiberRequest,
    OpenScope,
    SendTo,
    SpawnAgent,
    Status,
    Step,
    Vm,
    Watch,
    start,
)

PLAIN = {
    "int": [0, 1, -3, 7],
    "float": [0.5, -2.25, 3.0],
    "str": ["", "a", "b c", "low"],
    "bool": [True, False],
    "null": [None],
    "any": [1, "x", None, [1], {"x": {"y": 2}, "items": [0]}],
    "money": [{"$": "money", "of": 1_500_000_000}, {"$": "money", "of": 0}],
    "duration": [{"$": "duration", "of": 30_000}],
    "file": [{"$": "file", "of": "a.png"}],
    "nothing": [None],
}


def sample(kind: Type, chance: Random) -> Any:
    """Some value of the type, in the spelling of the machine."""
    match kind:
        case Plain(name=name):
            return chance.choice(PLAIN[name])
        case OptionalOf(inner=inner):
            return chance.choice([None, sample(inner, chance)])
        case ListOf(inner=inner, most=most):
            return [sample(inner, chance) for _ in range(chance.randint(0, min(3, most or 3)))]
        case MapOf(inner=inner):
            return {key: sample(inner, chance) for key in chance.sample(["a", "k", "x"], 2)}
        case ChoiceOf(choices=choices):
            return chance.choice(choices)
        case RecordOf(fields=fields):
            return {name: sample(field, chance) for name, field in fields}
        case ProcessOf(agent=agent):
            return {"$": "process", "of": f"main/{agent or 'Coder'}"}
        case _:
            raise AssertionError(kind)


def is_of(kind: Type, value: Any) -> bool:  # noqa: C901
    """Whether it is a value of this type and no other: an int is no float."""
    match kind:
        case Plain(name="any"):
            return True
        case Plain(name="nothing" | "null"):
            return value is None
        case Plain(name="money" | "duration" | "file" as name):
            return isinstance(value, dict) and value.get("$") == name
        case Plain(name=name):
            return type(value).__name__ == name
        case OptionalOf(inner=inner):
            return value is None or is_of(inner, value)
        case ListOf(inner=inner, most=most):
            short = isinstance(value, list) and (most is None or len(value) <= most)
            return short and all(is_of(inner, item) for item in value)
        case MapOf(inner=inner):
            return isinstance(value, dict) and all(is_of(inner, item) for item in value.values())
        case ChoiceOf(choices=choices):
            return value in choices
        case RecordOf(fields=fields):
            return list(value) == [name for name, _ in fields] and all(
                is_of(field, value[name]) for name, field in fields
            )
        case ProcessOf() | FutureOf() | StreamOf():
            return isinstance(value, dict) and "$" in value


def run(program: Checked, name: str, seed: int) -> tuple[Step, Type]:
    """The function called `name`, to its end; every want gets some answer of the right type."""
    module, chance = compile_program(program), Random(seed)
    at = next(i for i, one in enumerate(module.functions) if one.name == name)
    function = module.functions[at]
    vm = Vm(module, start(module, at, [sample(kind, chance) for kind in function.params]))
    step = vm.run(2_000)
    for _ in range(200):
        for want in step.requests:
            _answer(vm, module, want, chance)
        if step.status not in (Status.RUNNING, Status.WAITING):
            break
        step = vm.run(2_000)
    return step, function.result


def _answer(vm: Vm, module: Module, want: FiberRequest, chance: Random) -> None:
    match want:
        case SendTo(ticket=ticket, stream=True):
            vm.chunk(ticket, "one")
            vm.end_stream(ticket)
        case SendTo(ticket=ticket, answer=answer):
            vm.answer(ticket, "said" if answer is None else sample(answer, chance))
        case SpawnAgent(ticket=ticket, agent=agent):
            vm.answer(ticket, f"main/{agent}")
        case CallHost(ticket=ticket, function=function):
            row = LIBRARY.get(function)
            vm.answer(ticket, None if row is None else _given(row.result, chance))
        case OpenScope(ticket=ticket):
            vm.answer(ticket, None)
        case AskBudget(ticket=ticket):
            vm.answer(ticket, {"$": "money", "of": 5_000_000_000})
        case Watch(ticket=ticket):
            vm.answer(ticket, "normal")
        case _:
            pass


def _given(kind: Type, chance: Random) -> Any:
    return {"$": "process", "of": "main"} if isinstance(kind, ProcessOf) else sample(kind, chance)
