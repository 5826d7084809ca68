"""`vega node debug` and `replay`: go through a run of a node, one or two paths at a time, and carry
out again what was recorded.

The debugger is a plain prompt that reads lines: a person types them, a script pipes them in, and
then each is repeated before what it says. With `--json` all of it is one document. Neither command
touches the world, except for `replay --live`, which passes the gate as `vega node run` does.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import to_builtins

from vegakit.cli.look import Look, Sign, Tone, look_of, one_line, print_json, tell_error
from vegakit.cli.main import Argument, add_action
from vegakit.contracts import NodeOutcome, NodeProgram
from vegakit.errors import UserError, did_you_mean
from vegakit.money import format_money, to_usd
from vegakit.vesper import (
    DebuggedNode,
    DebugStop,
    KnownRecords,
    MakePath,
    Moment,
    MomentKind,
    NodeDebugger,
    NodeFile,
    NodeTrace,
    PythonPath,
    Redaction,
    Replay,
    TraceRecorder,
    WatchedPath,
    beside_trace,
    compiler_version,
    debugged_trace,
    load_node,
    new_version,
    node_digest,
    parse_breakpoint,
    parse_change,
    read_plain,
    read_sensitively,
    read_trace,
    replayed,
    shown_moment,
    step_named,
    steps_before,
    with_value,
    write_version,
    written_path,
)

_PATHS: dict[str, Callable[[NodeProgram], WatchedPath]] = {
    "python": PythonPath,
    "direct": written_path,
}
_CASES = 1_000
_PROMPT = "(vega) "


class WorldActions(NamedTuple):
    """The work of `vega node run` and `diff`, for the commands here."""

    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[
        [NodeProgram, dict[str, Any], argparse.Namespace, MakePath],
        tuple[NodeOutcome, dict[str, Any] | None],
    ]
    read_object: Callable[[str, str], dict[str, Any]]
    diff: Callable[[argparse.Namespace], int]


def add_debug_actions(actions: Any, world: WorldActions) -> None:  # noqa: ANN401
    """Add the debugger and the replay to the command."""
    inputs = (
        Argument("--inputs", default="{}", metavar="JSON", help="the inputs, or @FILE"),
        Argument(
            "--answers", default="{}", metavar="JSON", help="what steps are answered, or @FILE"
        ),
    )
    add_action(
        actions,
        "debug",
        lambda chosen: _debug(chosen, world),
        "step through a run",
        [
            Argument("file", type=Path),
            Argument(
                "--comparative",
                action="store_true",
                help="step two paths, to where they first differ",
            ),
            Argument(
                "--path",
                action="append",
                default=[],
                metavar="NAME",
                help="python, direct, or a FILE.py that compile wrote; direct, or the first two of "
                "these",
            ),
            Argument(
                "--break",
                dest="breaks",
                action="append",
                default=[],
                metavar="WHERE",
                help="contract_violation, state_transition, divergence, spend=$0.01, 'input: "
                "amount "
                "> 100' "
                "or a step; may be repeated",
            ),
            Argument("--records", metavar="JSON", help="records that there are, or @FILE"),
            Argument(
                "--trace",
                type=Path,
                metavar="TRACE.json",
                help="take inputs and answers from a trace",
            ),
            Argument("--reveal", action="store_true", help="show what is sensitive, too"),
            *inputs,
        ],
    )
    replaying = add_action(
        actions,
        "replay",
        lambda chosen: _replay(chosen, world),
        "run a trace again",
        [
            Argument("trace", type=Path, metavar="TRACE"),
            Argument("--node", type=Path, metavar="FILE", help="the node; that of the trace"),
            Argument(
                "--from",
                dest="first",
                type=int,
                default=1,
                metavar="N",
                help="keep what was before step N",
            ),
            Argument(
                "--modify",
                action="append",
                default=[],
                metavar="CHANGE",
                help="'step N = VALUE' or 'step NAME: EXPRESSION'",
            ),
            Argument("--apply", action="store_true", help="write the fix as a new version"),
            Argument("--live", action="store_true", help="carry out what it asks for, as run does"),
            Argument(
                "--cases",
                type=int,
                default=_CASES,
                metavar="N",
                help=f"of the diff of a fix; {_CASES:,}",
            ),
            *inputs,
        ],
    )
    replaying.set_defaults(path="python", seed=1)
    world.add_options(replaying)


# Debugging.


def _debug(chosen: argparse.Namespace, world: WorldActions) -> int:
    node = load_node(chosen.file).program
    names = chosen.path or (["python", "direct"] if chosen.comparative else ["direct"])
    if len(names) != 1 + chosen.comparative:
        raise UserError("--comparative takes two paths; type: --path python --path direct")
    debugged = _debugged(chosen, world, node)
    debugged = DebuggedNode(
        node,
        debugged.inputs,
        tuple(_path(name, node) for name in names),
        debugged.records,
        debugged.effects,
        debugged.answers,
    )
    breaks = [
        parse_breakpoint(each, node, is_comparative=chosen.comparative) for each in chosen.breaks
    ]
    prompt = _Prompt(NodeDebugger(debugged, breaks), names, chosen)
    prompt.begin()
    prompt.read()
    return prompt.end()


def _debugged(chosen: argparse.Namespace, world: WorldActions, node: NodeProgram) -> DebuggedNode:
    inputs = world.read_object("--inputs", chosen.inputs)
    answers = world.read_object("--answers", chosen.answers)
    for name in answers:
        step_named(node, name)
    if chosen.trace is not None and chosen.records is not None:
        raise UserError("a trace has its records; leave --records out")
    if chosen.trace is not None:
        return debugged_trace(read_trace(chosen.trace), node, inputs, answers)
    read_sensitively(node, inputs)
    records = world.read_object("--records", chosen.records or "{}")
    return DebuggedNode(node, inputs, (), KnownRecords.given(node, records), (), answers)


def _path(name: str, node: NodeProgram) -> Callable[[NodeProgram], WatchedPath]:
    if name in _PATHS:
        return _PATHS[name]
    if not name.endswith(".py"):
        raise UserError(
            f"there is no path {name[:40]!a}; {did_you_mean(name, _PATHS)} Or name a FILE.py"
        )
    try:
        source = Path(name).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise UserError(f"{name} cannot be read: {error}; name another file") from None

    def made(changed: NodeProgram) -> WatchedPath:
        if changed is not node:
            raise UserError(f"{name} is code that is fixed; modify steps of python or direct")
        try:
            return PythonPath(node, source)
        except (SyntaxError, KeyError) as error:
            raise UserError(
                f"{name} is no code of {node.node_id}: {error}; make it with "
                f"vega node compile FILE -o {name}"
            ) from None

    return made


class _Prompt:
    """Reads commands, and shows where the debugger stands."""

    def __init__(
        self, debugger: NodeDebugger, names: list[str], chosen: argparse.Namespace
    ) -> None:
        self._debugger, self._names, self._json = debugger, names, chosen.json
        self._node = debugger.debugged.node
        self._shown = Redaction(self._node, reveal=chosen.reveal)
        self._look = look_of(sys.stdout)
        self._said: list[dict[str, Any]] = []
        self._commands: dict[str, Callable[[str], None]] = {
            "step": self._step,
            "continue": self._continue,
            "break": self._break,
            "print": self._print,
            "back": self._back,
            "modify": self._modify,
            "help": self._help,
        }

    def begin(self) -> None:
        """Show the start; go on to the first stop if there is something to stop at."""
        start = self._debugger.here()
        self._show(start)
        if not start.reason and (self._debugger.breakpoints or self._debugger.is_comparative):
            self._try(self._continue, "")

    def read(self) -> None:
        """Carry out commands until somebody quits, or there are no more."""
        is_person = sys.stdin.isatty()
        while True:
            if is_person:
                print(_PROMPT, end="", flush=True)
            line = sys.stdin.readline()
            word, _, rest = line.strip().partition(" ")
            if not line or word in ("quit", "q"):
                return
            if not is_person and word and not self._json:
                print(f"{_PROMPT}{one_line(line.strip())}")
            if word:
                self._try(self._command, word, rest.strip())

    def end(self) -> int:
        """Return the status: whether the paths agree, as far as they were looked at."""
        difference = self._debugger.difference
        if self._json:
            differs = None if difference is None else self._as_json(difference)
            print_json(
                {
                    "node_id": self._node.node_id,
                    "paths": self._names,
                    "said": self._said,
                    "difference": differs,
                }
            )
        return 0 if difference is None else 1

    def _try(self, command: Callable[..., None], *given: str) -> None:
        try:
            command(*given)
        except UserError as error:
            if self._json:
                self._said.append({"error": str(error)})
            else:
                tell_error(error)

    def _command(self, word: str, rest: str) -> None:
        found = [name for name in self._commands if name.startswith(word)]
        if len(found) != 1:
            known = did_you_mean(word, [*self._commands, "quit"])
            raise UserError(f"there is no command {word[:40]!a}; {known}")
        self._commands[found[0]](rest)

    def _step(self, rest: str) -> None:
        for _ in range(int(rest) if rest.isdecimal() else 1):
            self._show(self._debugger.step())

    def _continue(self, _: str) -> None:
        for stop in self._debugger.resume():
            self._show(stop)

    def _break(self, rest: str) -> None:
        if rest:
            self._debugger.breakpoints.append(
                parse_breakpoint(rest, self._node, is_comparative=self._debugger.is_comparative)
            )
        self._tell({"breakpoints": [each.text for each in self._debugger.breakpoints]})

    def _print(self, rest: str) -> None:
        values = [self._shown.value(rest, each) for each in self._debugger.value_of(rest)]
        self._tell({rest: dict(zip(self._names, values, strict=True))})

    def _back(self, _: str) -> None:
        self._show(self._debugger.back())

    def _modify(self, rest: str) -> None:
        word, _, value = rest.partition(" ")
        if not value.strip():
            raise UserError("say which step, and its value; type for example: modify fee 0.12")
        self._show(self._debugger.modify(word, read_plain(value.strip())))

    def _help(self, _: str) -> None:
        self._tell(
            {
                "commands": "step [N], continue, break [WHERE], print NAME, back, "
                "modify STEP VALUE, quit"
            }
        )

    def _tell(self, said: dict[str, Any]) -> None:
        self._said.append(said)
        if not self._json:
            for name, value in said.items():
                print("\n".join(self._look.fold(f"{name}: {_brief(value)}", "    ")))

    def _show(self, stop: DebugStop) -> None:
        self._said.append(self._as_json(stop))
        if self._json:
            return
        first, *others = stop.moments
        differ = any(each != first for each in others)
        for name, moment in (
            zip(self._names, stop.moments, strict=True) if differ else (("", first),)
        ):
            head = f"{name}: " if differ else ""
            for line in self._lines(moment, head, stop.position):
                print("\n".join(self._look.fold(line, "        ")))
        if stop.reason:
            print("\n".join(self._look.marked(Sign.HELD, Tone.ASK, f"stopped: {stop.reason}")))

    def _lines(self, moment: Moment | None, head: str, position: int) -> Iterator[str]:
        if moment is None:
            yield f"{position} {head}has ended"
            return
        moment = shown_moment(moment, self._shown)
        yield f"{position} {head}{self._told(moment)}"
        for each in moment.verdicts:
            looked = ", ".join(f"{name} = {_brief(value)}" for name, value in each.values.items())
            sign = Sign.DONE if each.holds else Sign.FAILED
            yield f"    {sign} {each.kind}: {each.text}" + (f" ({looked})" if looked else "")

    def _told(self, moment: Moment) -> str:
        match moment.kind:
            case MomentKind.START:
                return f"start {_brief(moment.value)}"
            case MomentKind.ASKED if moment.effect is not None:
                asked = moment.effect
                return f"{asked.step or 'end'} asks: {asked.operation} {_brief(asked.arguments)}"
            case MomentKind.ANSWERED if moment.answer is not None:
                said = moment.answer.failure or _brief(moment.answer.value)
                spent = f", {format_money(moment.spent_nanos)} spent" if moment.spent_nanos else ""
                return f"{moment.step or 'end'} is answered: {said}{spent}"
            case MomentKind.STEP:
                return self._told_step(moment)
            case _:
                return f"end {moment.outcome}"

    def _told_step(self, moment: Moment) -> str:
        numbers = {step.name: number for number, step in enumerate(self._node.steps, 1)}
        step = self._node.steps[numbers[moment.step] - 1]
        head = f"step {numbers[moment.step]} {moment.step} ({step.operation}, line {step.line})"
        if moment.failure:
            return f"{head} fails: {moment.failure}"
        if step.result is None:
            return head
        before = f"{_brief(moment.before)} -> " if moment.before is not None else ""
        return f"{head}: {before}{_brief(moment.value)}"

    def _as_json(self, stop: DebugStop) -> dict[str, Any]:
        moments = {
            name: None if moment is None else _plain(shown_moment(moment, self._shown))
            for name, moment in zip(self._names, stop.moments, strict=True)
        }
        return {"position": stop.position, "reason": stop.reason, "moments": moments}


def _plain(moment: Moment) -> dict[str, Any]:
    plain = to_builtins(moment)
    for name in ("cost", "spent"):
        if nanos := plain.pop(f"{name}_nanos", 0):
            plain[f"{name}_usd"] = to_usd(nanos)
    return plain


def _brief(value: Any) -> str:  # noqa: ANN401
    return one_line(json.dumps(value, ensure_ascii=False))


# Replay.


def _replay(chosen: argparse.Namespace, world: WorldActions) -> int:
    trace = read_trace(chosen.trace)
    file = load_node(chosen.node or Path(trace.file))
    changes = [parse_change(each) for each in chosen.modify]
    fixes = [each for each in changes if each.expression]
    if len(fixes) > 1:
        raise UserError("one expression at a time; keep the first with --apply, then go on")
    if chosen.apply and not fixes:
        raise UserError("--apply keeps an expression; type: --modify 'step NAME: EXPRESSION'")
    fix = new_version(file, fixes[0]) if fixes else None
    node = file.program if fix is None else fix.node
    shown = Redaction(file.program, reveal=chosen.reveal and trace.revealed)
    values = {
        step_named(node, each.step).name: each.value for each in changes if not each.expression
    }
    found = (_replayed_live if chosen.live else _replayed)(
        chosen, world, trace, node, values, shown
    )
    if chosen.json:
        print_json(
            {
                "node_id": node.node_id,
                "changed": node_digest(file) != trace.digest,
                "compiler_changed": compiler_version() != trace.compiler,
                "differs": found.differs,
                **to_builtins(found),
            }
        )
    else:
        _show_replay(found, trace, file, look_of(sys.stdout))
    if fix is not None and (chosen.apply or _is_wanted(chosen)):
        path = write_version(fix)
        if not chosen.json:
            print(f"{path} is written; {file.path} is as it was")
            chosen.file, chosen.other = Path(file.path), path
            world.diff(chosen)
        return 0
    return 1 if found.differs and not changes else 0


def _replayed(
    chosen: argparse.Namespace,
    world: WorldActions,
    trace: NodeTrace,
    node: NodeProgram,
    changes: dict[str, Any],
    shown: Redaction,
) -> Replay:
    """Replay from what was recorded; nothing is performed."""
    start = steps_before(trace, node, chosen.first)
    inputs = world.read_object("--inputs", chosen.inputs)
    answers = world.read_object("--answers", chosen.answers)
    debugged = debugged_trace(trace, start.node, inputs, answers)
    return replayed(trace, debugged, {**start.values, **changes}, shown)


def _replayed_live(
    chosen: argparse.Namespace,
    world: WorldActions,
    trace: NodeTrace,
    node: NodeProgram,
    changes: dict[str, Any],
    shown: Redaction,
) -> Replay:
    """Carry out what the run asks for, under the grant of the command line."""
    start = steps_before(trace, node, chosen.first)
    node = start.node
    for name, value in {**start.values, **changes}.items():
        step = step_named(node, name)
        if step.effect is not None:
            raise UserError(
                f"step {name} asks the world, which answers it itself with --live; leave one out"
            )
        node = with_value(node, step, value)
    inputs = world.read_object("--inputs", chosen.inputs)
    given = debugged_trace(trace, node, inputs, {}).inputs
    recorder = TraceRecorder(node, _PATHS[chosen.path])
    if node.has_effects:
        outcome, _ = world.run(node, given, chosen, recorder)
    else:
        outcome = recorder(node).run(given)
    asked = [each.effect for each in recorder.effects]
    return beside_trace(trace, node, recorder.steps, asked, outcome, shown)


def _show_replay(found: Replay, trace: NodeTrace, file: NodeFile, look: Look) -> None:
    if node_digest(file) != trace.digest:
        tell_error(f"{file.path} has changed since {trace.node_id} was recorded", "note", Tone.ASK)
    if compiler_version() != trace.compiler:
        tell_error("it was recorded by another version of vega", "note", Tone.ASK)
    for each in found.steps:
        sides = [
            "nothing" if one is None else _brief(one.value) for one in (each.recorded, each.now)
        ]
        said = f"{each.number} {each.step}: {' -> '.join(sides) if each.differs else sides[0]}"
        sign, tone = (Sign.HELD, Tone.ASK) if each.differs else (Sign.DONE, Tone.OK)
        print("\n".join(look.marked(sign, tone, said)))
    for effect in found.asked:
        said = f"{effect.step or 'end'} asks now: {effect.operation} {_brief(effect.arguments)}"
        print("\n".join(look.fold(said, "    ")))
    if found.recorded == found.now:
        print("\n".join(look.fold(f"end: {found.now}", "    ")))
    else:
        print("\n".join(look.fold(f"end, as recorded: {found.recorded}", "    ")))
        print("\n".join(look.fold(f"end, now: {found.now}", "    ")))


def _is_wanted(chosen: argparse.Namespace) -> bool:
    """Ask a person whether to keep a fix; a script says --apply."""
    if chosen.json or not sys.stdin.isatty():
        return False
    print("Apply fix? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
