"""`vega node`: check, compile, run, test and compare nodes, small functions under a contract.

Nothing is asked of a model and no state is kept: each action reads its files, and says what it
found. What is wrong in a file is told with its line.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from vegakit.cli.look import (
    Cell,
    Column,
    Look,
    Sign,
    Tone,
    count,
    look_of,
    one_line,
    print_json,
    table,
    tell_error,
)
from vegakit.cli.main import CommandParser
from vegakit.cli.node_native import add_native_actions, native_legs, native_path
from vegakit.contracts import (
    NodeOutcome,
    NodeProgram,
    NodeStatus,
    judge,
    native_obstacle,
    python_source,
    show_type,
)
from vegakit.errors import SettingsError, UserError
from vegakit.vesper import (
    DirectPath,
    Divergence,
    NodeFile,
    NodePath,
    NodeReport,
    PythonPath,
    compare_paths,
    find_nodes,
    load_node,
)

_CASES = 10_000
_PATHS: dict[str, Callable[[NodeProgram], NodePath]] = {
    "python": PythonPath,
    "direct": DirectPath,
    "native": native_path,
}


def node_command(arguments: Sequence[str]) -> int:
    """Run `vega node`."""
    chosen = _parser().parse_args(arguments)
    action: Callable[[argparse.Namespace], int] = chosen.run
    return action(chosen)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="vega node",
        description="Check, compile, run, test and compare nodes: small functions under a "
        "contract, in files of the suffix .vsp.",
    )
    actions = parser.add_subparsers(
        dest="action", required=True, metavar="check | compile | run | batch | test | diff | list"
    )
    checking = _action(actions, "check", _check, "find what is wrong with nodes")
    checking.add_argument("places", nargs="+", type=Path, metavar="FILE|FOLDER")
    compiling = _action(actions, "compile", _compile, "print a node as Python")
    compiling.add_argument("file", type=Path)
    compiling.add_argument("-o", "--output", type=Path, metavar="FILE.py", help="write it there")
    running = _action(actions, "run", _run, "run a node once")
    running.add_argument("file", type=Path)
    running.add_argument(
        "--inputs", default="{}", metavar="JSON", help="the inputs, or @FILE to read them from"
    )
    running.add_argument(
        "--path", choices=[*_PATHS], default="python", help="which path answers; python"
    )
    testing = _action(actions, "test", _test, "run all paths of nodes over random inputs")
    testing.add_argument("places", nargs="+", type=Path, metavar="FILE|FOLDER")
    testing.add_argument(
        "--no-optimise", dest="optimise", action="store_false", help="run nodes as they are written"
    )
    differing = _action(actions, "diff", _diff, "run two versions of a node over random inputs")
    differing.add_argument("file", type=Path)
    differing.add_argument("other", type=Path)
    for each in (testing, differing):
        each.add_argument("--cases", type=int, default=_CASES, metavar="N", help=f"{_CASES:,}")
        each.add_argument("--seed", type=int, default=1, metavar="N", help="of the inputs; 1")
    add_native_actions(actions, _action)
    listing = _action(actions, "list", _list, "list nodes")
    listing.add_argument("places", nargs="*", type=Path, default=[Path()], metavar="FILE|FOLDER")
    return parser


def _action(
    actions: Any,  # noqa: ANN401  (argparse has no public name for it)
    name: str,
    run: Callable[[argparse.Namespace], int],
    line: str,
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=line, description=line)
    parser.add_argument("--json", action="store_true", help="as JSON, for programs")
    parser.set_defaults(run=run)
    return parser


def _loaded(places: list[Path]) -> tuple[list[NodeFile], list[UserError]]:
    """Return the nodes that can be read, and what is wrong with the others."""
    nodes, wrong = list[NodeFile](), list[UserError]()
    for path in find_nodes(places):
        try:
            nodes.append(load_node(path))
        except SettingsError:  # of this machine, and so of all files
            raise
        except UserError as error:
            wrong.append(error)
    return nodes, wrong


def _check(chosen: argparse.Namespace) -> int:
    nodes, wrong = _loaded(chosen.places)
    if chosen.json:
        good = [{"path": node.path, "node": _summary(node.program)} for node in nodes]
        print_json({"nodes": good, "errors": [str(error) for error in wrong]})
        return 1 if wrong else 0
    look = look_of(sys.stdout)
    for node in nodes:
        program = node.program
        clauses = count(len(program.before) + len(program.after), "clause")
        steps = count(len(program.steps), "step")
        said = f"{program.node_id}: {steps}, {clauses}, at most {program.cost:,} operations a run"
        obstacle = native_obstacle(program)
        said += f"; not native: {obstacle}" if obstacle else "; can be native"
        print("\n".join(look.marked(Sign.DONE, Tone.OK, said)))
    for error in wrong:
        tell_error(error)
    return 1 if wrong else 0


def _summary(node: NodeProgram) -> dict[str, Any]:
    return {
        "node_id": node.node_id,
        "type": node.kind,
        "intent": node.intent,
        "inputs": {each.name: show_type(each.type) for each in node.inputs},
        "outputs": {name: show_type(kind) for name, kind in node.outputs},
        "errors": node.error_codes,
        "steps": [step.name for step in node.steps],
        "clauses": [f"{each.kind}: {each.text}" for each in (*node.before, *node.after)],
        "most_operations": node.cost,
        "not_native": native_obstacle(node),
    }


def _compile(chosen: argparse.Namespace) -> int:
    node = load_node(chosen.file)
    source = python_source(node.program, chosen.file.name)
    if chosen.output is not None:
        try:
            chosen.output.write_text(source, encoding="utf-8")
        except OSError as error:
            raise UserError(
                f"{chosen.output} cannot be written: {error.strerror}; choose another file"
            ) from error
    if chosen.json:
        print_json({"node_id": node.program.node_id, "source": source})
    elif chosen.output is None:
        print(source, end="")
    return 0


def _run(chosen: argparse.Namespace) -> int:
    node = load_node(chosen.file).program
    inputs = _inputs(chosen.inputs)
    values = node.read_inputs(inputs)
    outcome = _PATHS[chosen.path](node).run(node.show_inputs(values))
    # The interpreter's names and values, whichever path answered: they say what was looked at.
    broken = judge(node.before, values).broken if outcome.status is NodeStatus.BROKEN else ()
    if chosen.json:
        print_json({**_outcome(outcome), "path": chosen.path, "broken": to_builtins(broken)})
    elif outcome.status is NodeStatus.SUCCESS:
        print(json.dumps(outcome.outputs, indent=2))
    else:
        tell_error(_told(node, outcome, [str(each) for each in broken]))
    return 0 if outcome.status is NodeStatus.SUCCESS else 1


def _inputs(given: str) -> dict[str, Any]:
    """Return the inputs of a command line. Numbers with a point stay texts, since a float would not
    be exact."""
    try:
        text = Path(given[1:]).read_text("utf-8") if given.startswith("@") else given
        read = json.loads(text, parse_float=str)
    except OSError as error:
        raise UserError(f"{given[1:]} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"--inputs is no JSON: {error}; type for example: --inputs '{{\"amount\": 5}}'"
        ) from None
    if not isinstance(read, dict):
        raise UserError("--inputs is no object; type for example: --inputs '{\"amount\": 5}'")
    return read  # pyright: ignore[reportUnknownVariableType]


def _outcome(outcome: NodeOutcome) -> dict[str, Any]:
    error = None
    if outcome.status is NodeStatus.ERROR:
        error = {"error_code": outcome.reason, "message": f"at step {outcome.step}"}
    return {**to_builtins(outcome), "status": str(outcome.status), "error": error}


def _told(node: NodeProgram, outcome: NodeOutcome, broken: list[str]) -> str:
    where = f" at step {outcome.step}" if outcome.step else ""
    match outcome.status:
        case NodeStatus.ERROR:
            return f"{node.node_id} ends with the error {outcome.reason}{where}"
        case NodeStatus.TRAP:
            return (
                f"{node.node_id} has no result: {outcome.reason}{where}; give the step an error "
                f"for it, as in error_handling: {{{outcome.reason}: CODE}}, or bound the inputs"
            )
        case _:
            said = "; ".join(broken) or f"{outcome.reason} does not hold after the run"
            return f"{node.node_id} is not within its contract: {said}"


def _test(chosen: argparse.Namespace) -> int:
    nodes, wrong = _loaded(chosen.places)
    if wrong:
        raise wrong[0]
    look, reports = look_of(sys.stdout), list[NodeReport]()
    for node in nodes:
        program = node.program
        direct = DirectPath(program, optimise=chosen.optimise)
        more = native_legs(program, optimise=chosen.optimise)
        report = compare_paths(
            program, PythonPath(program), direct, _cases(chosen), chosen.seed, *more
        )
        reports.append(report)
        if not chosen.json:
            _show_report(report, look)
    if chosen.json:
        print_json({"reports": reports})
    return 0 if all(report.holds for report in reports) else 1


def _cases(chosen: argparse.Namespace) -> int:
    if chosen.cases < 1:
        raise UserError("--cases is the number of inputs, 1 or more")
    return chosen.cases


def _show_report(report: NodeReport, look: Look) -> None:
    outcomes = ", ".join(f"{number:,} {status}" for status, number in report.outcomes.items())
    differ = f"{report.differing:,} differ" if report.differing else "none differ"
    said = f"{report.node_id}: {report.cases:,} inputs ({outcomes}), {differ}"
    sign, tone = (Sign.DONE, Tone.OK) if report.holds else (Sign.FAILED, Tone.BAD)
    print("\n".join(look.marked(sign, tone, said)))
    for divergence in report.divergences:
        _show_divergence(divergence, look)
    for divergence in report.broken:
        given = one_line(json.dumps(divergence.inputs))
        print(
            "\n".join(
                look.fold(f"{divergence.reference.reason} does not hold: {given}", "    ", "  ")
            )
        )


def _show_divergence(divergence: Divergence, look: Look) -> None:
    for name, value in (
        ("inputs", json.dumps(divergence.inputs)),
        ("reference", str(divergence.reference)),
        (divergence.path or "candidate", str(divergence.candidate)),
    ):
        print("\n".join(look.fold(one_line(value), "    ", f"  {name}: ")))


def _diff(chosen: argparse.Namespace) -> int:
    one, other = load_node(chosen.file).program, load_node(chosen.other).program
    _check_alike(one, other)
    paths: tuple[NodePath, NodePath] = (DirectPath(one), DirectPath(other))
    report = compare_paths(one, *paths, _cases(chosen), chosen.seed)
    if chosen.json:
        print_json({"reference": one.node_id, "candidate": other.node_id, "report": report})
    else:
        _show_report(report, look_of(sys.stdout))
    return 0 if report.holds else 1


def _check_alike(one: NodeProgram, other: NodeProgram) -> None:
    sides = [{each.name: show_type(each.type) for each in node.inputs} for node in (one, other)]
    for name in sorted({*sides[0], *sides[1]}):
        kinds = [side.get(name, "nothing") for side in sides]
        if kinds[0] != kinds[1]:
            raise UserError(
                f"{one.node_id} and {other.node_id} do not take the same inputs: {name} is "
                f"{kinds[0]} in one and {kinds[1]} in the other; compare versions of one node"
            )


def _list(chosen: argparse.Namespace) -> int:
    nodes, wrong = _loaded(chosen.places)
    if chosen.json:
        rows = [{"path": node.path, **_summary(node.program)} for node in nodes]
        print_json({"nodes": rows, "errors": [str(error) for error in wrong]})
    else:
        columns = (
            Column("Node"),
            Column("Type"),
            Column("Intent", least=20),
            Column("File", drop=1),
        )
        rows = [
            [Cell(each.program.node_id), each.program.kind, each.program.intent, each.path]
            for each in nodes
        ]
        if rows:
            print(table(columns, rows, look_of(sys.stdout)))
        for error in wrong:
            tell_error(error)
    return 1 if wrong else 0
