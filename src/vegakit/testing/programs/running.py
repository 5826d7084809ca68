"""Running a test program: scripted answers, virtual time, a folder of its own."""

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from vegakit.conversation import ModelRequest
from vegakit.errors import UserError, VegaError, name_of
from vegakit.lang import Diagnostic, Module, Problem, arguments_of, compile_program
from vegakit.models import ScriptedModel
from vegakit.money import Money, dollars, show
from vegakit.program import DEFAULT_WINDOW, Action, Bounds, Event, Machine, Noted, Printed, Program
from vegakit.records import from_json, to_json
from vegakit.runtime import Loading, Question, Runtime, Source, VegaProgram, bridge_at, look_at
from vegakit.testing.programs.expecting import Expected, Place, read_expected
from vegakit.testing.simulation.loop import VirtualClock, run_virtual
from vegakit.vm import restored, text_of

__all__ = ["Ran", "compare", "given_to", "model_of", "run_program", "run_test", "tests_below"]


@dataclass
class Ran:
    """What a test program did; `problems` are the differences from what it says of itself, `asked`
    the messages of each call of a model."""

    path: Path
    printed: list[str] = field(default_factory=list[str])
    result: str = "null"
    error: str = ""
    took_ms: int = 0
    calls: int = 0
    asked: list[str] = field(default_factory=list[str])
    spent: int = 0
    notes: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])
    module: Module | None = None


def tests_below(paths: Iterable[Path]) -> Iterator[Path]:
    """Files that say something of themselves; those that others only use do not."""
    for path in paths:
        files = sorted(path.rglob("*.vega")) if path.is_dir() else [path]
        yield from (file for file in files if path.is_file() or _says_something(file))


def _says_something(file: Path) -> bool:
    text = file.read_text(encoding="utf-8")
    return read_expected(text, file.name) != Expected()


def run_test(
    path: Path,
    *,
    step_by_step: bool = False,
    window: int = DEFAULT_WINDOW,
    run: Callable[[Ran, Expected], object] | None = None,
    loading: Loading | None = None,
) -> Ran:
    """`step_by_step`: the whole program goes through JSON after every single instruction. `run` is
    for another host. `loading` is told what a program in Python runs when it is loaded."""
    found = look_at(path)
    expected = read_expected(found.text, path.name)
    ran = Ran(path)
    refused = _compare_diagnostics(ran, expected, found.diagnostics, found.source)
    if refused or found.checked is None:
        return ran
    ran.module = compile_program(found.checked)
    try:
        if run is None:
            run_program(ran, expected, step_by_step=step_by_step, window=window, loading=loading)
        else:
            run(ran, expected)
    except UserError as error:
        ran.problems.append(str(error))
    compare(ran, expected)
    return ran


def run_program(
    ran: Ran,
    expected: Expected,
    *,
    step_by_step: bool = False,
    window: int = DEFAULT_WINDOW,
    loading: Loading | None = None,
) -> None:
    assert ran.module is not None
    bridge = bridge_at(ran.path, loading)
    with tempfile.TemporaryDirectory(prefix="vega-test-") as folder:
        root = Path(folder).resolve()
        for name, content in expected.files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content, encoding="utf-8")
        bounds = Bounds(slice=1 if step_by_step else Bounds().slice, window=window)
        program = VegaProgram(ran.module, root, bridge=bridge)
        run_virtual(_run(ran, expected, program, bounds, step_by_step=step_by_step))


async def _run(
    ran: Ran,
    expected: Expected,
    program: VegaProgram,
    bounds: Bounds,
    *,
    step_by_step: bool,
) -> None:
    assert ran.module is not None
    clock = VirtualClock()
    model = model_of(expected, latency_ms=expected.latency_ms, clock=clock)
    answers = iter(expected.answers)
    main, given = ran.module.functions[ran.module.main], given_to(ran.module, expected)
    began = clock.now()
    async with Runtime("$1000", models=lambda _: model, clock=clock, bounds=bounds) as rt:
        rt.on(Printed, lambda news: ran.printed.extend(news.text.split("\n")))
        rt.on(Noted, lambda news: ran.notes.append(f"{news.kind} {news.text}"))
        rt.on(Question, lambda question: _answer(rt, question, answers))
        if step_by_step:
            _go_through_json(rt)
        wallet = dollars(expected.budget or "$100")
        try:
            result = await rt.program.run(program, main.name, given, wallet, expected.allow)
            ran.result = text_of(restored(result))
        except VegaError as error:
            ran.error = f"{name_of(error)}: {error}"
        ran.took_ms = clock.now() - began
        ran.calls, ran.spent = len(model.requests), rt.spent
        ran.asked = [str(to_json(request.messages).decode()) for request in model.requests]


def given_to(module: Module, expected: Expected) -> list[Any]:
    """The arguments of main."""
    params = module.functions[module.main].params
    names = [(f"argument {n}", kind) for n, kind in enumerate(params, 1)]
    given = arguments_of(names, expected.args)
    if isinstance(given, Problem):
        raise UserError(f"`// args:` does not fit main: {given}")
    return list(given)


def model_of(expected: Expected, **options: Any) -> ScriptedModel:  # noqa: ANN401
    return ScriptedModel(_script(expected), **options)


def _script(expected: Expected) -> Any:  # noqa: ANN401
    if not expected.matches:
        return [_reply(said) for said in expected.replies]
    return {text: [_reply(said) for said in all_] for text, all_ in expected.matches.items()}


def _reply(said: Any) -> Any:  # noqa: ANN401
    match said:
        case {"crash": why}:
            return partial(_crash, str(why))  # pyright: ignore[reportUnknownArgumentType]
        case _:
            return said


def _crash(why: str, _: ModelRequest) -> str:
    raise RuntimeError(why)


class _JsonMachine(Machine):
    """Forgets everything but its state, as JSON, after every step."""

    def step(self, event: Event, now: int) -> list[Action]:
        said = super().step(event, now)
        self.__init__(from_json(Program, to_json(self.state)), self.code)
        return said


def _go_through_json(rt: Runtime) -> None:
    program = rt.program
    program.adopt(_JsonMachine(program.machine.state, program.registry.code))


def _answer(rt: Runtime, question: Question, answers: Iterator[str]) -> None:
    said = next(answers, None)
    if said is not None:
        answer = said.lower() in ("yes", "true") if question.permits else said
        asyncio.ensure_future(rt.answer(question.id, answer))  # noqa: RUF006


def _compare_diagnostics(
    ran: Ran, expected: Expected, found: Sequence[Diagnostic], source: Source
) -> bool:
    """Whether the program is refused."""
    places = {
        severity: [_place(one, source) for one in found if one.severity == severity]
        for severity in ("error", "warning")
    }
    wanted = {"error": expected.diagnostics, "warning": expected.warnings}
    for severity, said in wanted.items():
        due = [(0 if " in " in place.said else place.line, place.said) for place in said]
        if severity == "warning" and not due:
            continue
        if sorted(due) != sorted(places[severity]):
            ran.problems.append(
                f"{severity}s: expected {_listed(due)}, got {_listed(places[severity])}"
            )
    return bool(places["error"])


def _place(found: Diagnostic, source: Source) -> tuple[int, str]:
    """In a file that is used by the program: line 0, and the code says where."""
    line = source.texts[found.file].count("\n", 0, found.at) + 1
    if found.file == source.name:
        return line, found.code
    file = Path(os.path.relpath(found.file, Path(source.name).parent)).as_posix()
    return 0, f"{found.code} in {file}:{line}"


def _listed(places: Sequence[tuple[int, str]]) -> str:
    return ", ".join(f"{code} at line {line}" if line else code for line, code in places) or "none"


def compare(ran: Ran, expected: Expected) -> None:
    printed = [line.rstrip() for line in ran.printed]
    if expected.printed != printed:
        ran.problems.append(_difference(expected.printed, printed))
    _compare_error(ran, expected.error)
    _compare_calls(ran, expected.through)
    pairs = [
        ("result", expected.result, ran.result),
        ("time", expected.time_ms, ran.took_ms),
        ("calls", expected.calls, ran.calls),
        ("spent", expected.spent, show(Money(ran.spent))),
        ("notes", expected.notes or None, ran.notes),
    ]
    for what, due, was in pairs:
        if due is not None and due != was:
            ran.problems.append(f"{what}: expected {due}, got {was}")


def _compare_error(ran: Ran, due: Place | None) -> None:
    if due is None:
        if ran.error:
            ran.problems.append(f"it ended with {ran.error}")
        return
    if not ran.error.startswith(due.said):
        ran.problems.append(f"error: expected {due.said!r}, got {ran.error or 'none'!r}")
    elif f":{due.line} in " not in ran.error.partition("\n")[2].partition("\n")[0]:
        ran.problems.append(f"error: expected it at line {due.line}, got {ran.error!r}")


def _compare_calls(ran: Ran, due: Sequence[Place]) -> None:
    rows = ran.error.split("\n")[2:]
    if due and sorted(f"{place.line} in {place.said}" for place in due) != sorted(
        row.rpartition(":")[2] for row in rows
    ):
        ran.problems.append(f"error: expected other calls on the way, got {rows}")


def _difference(due: Sequence[str], was: Sequence[str]) -> str:
    for at, (one, other) in enumerate(zip(due, was, strict=False), 1):
        if one != other:
            return f"printed line {at}: expected {one!r}, got {other!r}"
    return (
        f"printed: expected {len(due)} lines, got {len(was)}: {[*due, *was][-1]!r} is one too many"
    )
