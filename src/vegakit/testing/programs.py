"""Test programs: run them with scripted answers on virtual time, and compare with what they expect
(kit, host).
"""

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from vegakit.control import Question
from vegakit.conversation import ModelRequest
from vegakit.errors import ToolFailed, UserError, VegaError, error_name
from vegakit.host import PythonInterop
from vegakit.lang import Diagnostic, Module, Problem, arguments_of, compile_program
from vegakit.money import Money, dollars, format_money
from vegakit.ports import CommandResult
from vegakit.program import (
    DEFAULT_WINDOW,
    Action,
    Bounds,
    Event,
    Machine,
    Printed,
    Program,
    TraceNote,
)
from vegakit.providers import ScriptedModel
from vegakit.records import from_json, to_json
from vegakit.sdk import (
    LoadHook,
    Runtime,
    Source,
    VegaProgram,
    check_source,
    interop_at,
    programs_below,
)
from vegakit.testing.expectations import Expectations, ExpectedLine, read_expectations
from vegakit.testing.harness import VirtualClock, run_virtual
from vegakit.tools import FunctionTool, SandboxPool, SandboxSpec
from vegakit.vm import restored, text_of

# Running a test program: scripted answers, virtual time, a folder of its own.


@dataclass
class ProgramTestResult:
    """The run of a test program; `problems` are the differences from what it says of itself,
    `asked` the messages of each call of a model."""

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


def find_tests(paths: Iterable[Path]) -> Iterator[Path]:
    """Files that say something of themselves; those that others only use do not."""
    for path in paths:
        files = programs_below(path) if path.is_dir() else [path]
        yield from (file for file in files if path.is_file() or _has_expectations(file))


def _has_expectations(file: Path) -> bool:
    text = file.read_text(encoding="utf-8", errors="replace")
    return read_expectations(text, file.name) != Expectations()


def run_test(
    path: Path,
    *,
    step_by_step: bool = False,
    window: int = DEFAULT_WINDOW,
    run: Callable[[ProgramTestResult, Expectations], object] | None = None,
    loading: LoadHook | None = None,
    nodes: Sequence[FunctionTool] = (),
) -> ProgramTestResult:
    """`step_by_step`: the whole program goes through JSON after every single instruction. `run` is
    for another host. `loading` gets a file of Python before it is loaded, and may refuse it;
    `nodes` are those that the program declares."""
    found = check_source(path, PythonInterop(nodes).signatures)
    expected = read_expectations(found.text, path.name)
    ran = ProgramTestResult(path)
    refused = _compare_diagnostics(ran, expected, found.diagnostics, found.source)
    if refused or found.checked is None:
        return ran
    ran.module = compile_program(found.checked)
    try:
        if run is None:
            run_program(
                ran,
                expected,
                step_by_step=step_by_step,
                window=window,
                loading=loading,
                nodes=nodes,
            )
        else:
            run(ran, expected)
    except UserError as error:
        ran.problems.append(str(error))
    compare(ran, expected)
    return ran


def run_program(
    ran: ProgramTestResult,
    expected: Expectations,
    *,
    step_by_step: bool = False,
    window: int = DEFAULT_WINDOW,
    loading: LoadHook | None = None,
    nodes: Sequence[FunctionTool] = (),
) -> None:
    """Run a test program on a machine of its own, and note what it does."""
    assert ran.module is not None
    interop = interop_at(ran.path, loading, nodes)
    with tempfile.TemporaryDirectory(prefix="vega-test-") as folder:
        root = Path(folder).resolve()
        _write_files(root, expected.files)
        # A test counts the calls that the program makes, so none is begun behind a guard.
        rules = 1 if step_by_step else Bounds().slice
        bounds = Bounds(slice=rules, window=window, guesses=0)
        program = VegaProgram(ran.module, root, interop=interop)
        run_virtual(_run(ran, expected, program, bounds, step_by_step=step_by_step))


def _write_files(root: Path, files: Mapping[str, str]) -> None:
    """Write the files of a test. Their paths lead nowhere else, and in a folder that was just made
    no link does."""
    for name, content in files.items():
        try:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            with (root / name).open("x", encoding="utf-8") as file:
                file.write(content)
        except OSError as error:
            raise UserError(
                f"`// file: {name} = …` cannot be written: {error.strerror}; give it another name"
            ) from error


async def _run(
    ran: ProgramTestResult,
    expected: Expectations,
    program: VegaProgram,
    bounds: Bounds,
    *,
    step_by_step: bool,
) -> None:
    assert ran.module is not None
    clock = VirtualClock()
    model = scripted_model(expected, latency_ms=expected.latency_ms, clock=clock)
    answers = iter(expected.answers)
    main, given = ran.module.functions[ran.module.main], main_arguments(ran.module, expected)
    began = clock.now()
    rt = Runtime("$1000", models=lambda _: model, clock=clock, bounds=bounds)
    rt.sandboxes = _ScriptedCommands(rt, expected)
    async with rt:
        rt.on(Printed, lambda news: ran.printed.extend(news.text.split("\n")))
        rt.on(TraceNote, lambda news: ran.notes.append(f"{news.kind} {news.text}"))
        rt.on(Question, lambda question: _answer(rt, question, answers))
        if step_by_step:
            _go_through_json(rt)
        wallet = dollars(expected.budget or "$100")
        try:
            result = await rt.program.run(program, main.name, given, wallet, expected.allow)
            ran.result = text_of(restored(result))
        except VegaError as error:
            ran.error = f"{error_name(error)}: {error}"
        ran.took_ms = clock.now() - began
        ran.calls, ran.spent = len(model.requests), await rt.spent()
        ran.asked = [str(to_json(request.messages).decode()) for request in model.requests]


class _ScriptedCommands(SandboxPool):
    """Commands that say what the test says, the last of it again and again, and run nothing."""

    def __init__(self, rt: Runtime, expected: Expectations) -> None:
        super().__init__(rt.children, rt.clock, str)
        self._said = {name: list(all_) for name, all_ in expected.commands.items()}
        self._takes = expected.latency_ms

    async def run(
        self,
        argv: Sequence[str],
        spec: SandboxSpec,
        said: bytes = b"",
        on_output: Callable[[bytes], object] | None = None,
    ) -> CommandResult:
        """Return what the test says of the command."""
        name = " ".join(argv)
        if not (due := self._said.get(name)):
            raise ToolFailed(f'no `// command "{name}": …` says what it gives')
        await asyncio.sleep(self._takes / 1_000)
        given = due.pop(0) if len(due) > 1 else due[0]
        fields: dict[str, Any] = {"out": given} if isinstance(given, str) else given
        code, out, err = fields.get("code", 0), fields.get("out", ""), fields.get("err", "")
        return CommandResult(int(code), str(out), str(err), self._takes)


def main_arguments(module: Module, expected: Expectations) -> list[Any]:
    """The arguments of main."""
    params = module.functions[module.main].params
    names = [(f"argument {n}", kind) for n, kind in enumerate(params, 1)]
    given = arguments_of(names, expected.args)
    if isinstance(given, Problem):
        raise UserError(f"`// args:` does not fit main: {given}")
    return list(given)


def scripted_model(expected: Expectations, **options: Any) -> ScriptedModel:  # noqa: ANN401
    """Return the model that answers as the test says."""
    return ScriptedModel(_script(expected), **options)


def _script(expected: Expectations) -> Any:  # noqa: ANN401
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
    ran: ProgramTestResult, expected: Expectations, found: Sequence[Diagnostic], source: Source
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
    """Return where a diagnostic is. One in a file that is used by the program has line 0, and the
    code says where."""
    line = source.texts[found.file].count("\n", 0, found.at) + 1
    if found.file == source.name:
        return line, found.code
    file = Path(os.path.relpath(found.file, Path(source.name).parent)).as_posix()
    return 0, f"{found.code} in {file}:{line}"


def _listed(places: Sequence[tuple[int, str]]) -> str:
    return ", ".join(f"{code} at line {line}" if line else code for line, code in places) or "none"


def compare(ran: ProgramTestResult, expected: Expectations) -> None:
    """Note every difference between a run and what was expected."""
    printed = [line.rstrip() for line in ran.printed]
    if expected.printed != printed:
        ran.problems.append(_difference(expected.printed, printed))
    _compare_error(ran, expected.error)
    _compare_calls(ran, expected.through)
    pairs = [
        ("result", expected.result, ran.result),
        ("time", expected.time_ms, ran.took_ms),
        ("calls", expected.calls, ran.calls),
        ("spent", expected.spent, format_money(Money(ran.spent))),
        ("notes", expected.notes or None, ran.notes),
    ]
    for what, due, was in pairs:
        if due is not None and due != was:
            ran.problems.append(f"{what}: expected {due}, got {was}")


def _compare_error(ran: ProgramTestResult, due: ExpectedLine | None) -> None:
    if due is None:
        if ran.error:
            ran.problems.append(f"it ended with {ran.error}")
        return
    if not ran.error.startswith(due.said):
        ran.problems.append(f"error: expected {due.said!r}, got {ran.error or 'none'!r}")
    elif f":{due.line} in " not in ran.error.partition("\n")[2].partition("\n")[0]:
        ran.problems.append(f"error: expected it at line {due.line}, got {ran.error!r}")


def _compare_calls(ran: ProgramTestResult, due: Sequence[ExpectedLine]) -> None:
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
