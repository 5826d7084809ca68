"""`vega node`, and `vesper`, its second name: check, compile, run, test and compare nodes, small
functions under a contract.

Each action reads its files, and says what it found; what is wrong in a file is told with its line.
Only `run` touches the world, and only of a node with effects: over records in memory, or over those
of `--state`, with what `--allow` grants.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET, to_builtins

from vegakit.cli.look import (
    Look,
    Sign,
    Tone,
    count,
    look_of,
    one_line,
    print_json,
    tell_error,
)
from vegakit.cli.main import Argument, CommandParser, add_action, declare
from vegakit.cli.node_debug import WorldActions, add_debug_actions
from vegakit.cli.node_native import add_native_actions, native_legs, native_path
from vegakit.cli.node_proof import add_proof_actions
from vegakit.cli.node_repository import (
    add_repository_actions,
    folder_problems,
    node_summary,
)
from vegakit.contracts import (
    HANDLED,
    BrokenClause,
    NodeOutcome,
    NodeProgram,
    NodeStatus,
    judge,
    native_obstacle,
    python_source,
    show_type,
)
from vegakit.errors import CapabilityDenied, SettingsError, UserError
from vegakit.host import as_audit
from vegakit.policy import Grant
from vegakit.store import RecordStore, open_records
from vegakit.tools import write_output
from vegakit.vesper import (
    DirectPath,
    Divergence,
    MakePath,
    NodeFile,
    NodeHost,
    NodePath,
    NodeReport,
    PythonPath,
    TraceRecorder,
    check_grant,
    compare_paths,
    find_nodes,
    grant_of,
    load_node,
    put_records,
    read_sensitively,
    shown_clauses,
    shown_outcome,
    shown_records,
    write_trace,
)

_CASES = 10_000
_EXAMPLES = {
    "--inputs": "'{\"amount\": 5}'",
    "--records": "'{\"accounts\": []}'",
    "--answers": '\'{"charge": "accepted"}\'',
}
_PATHS: dict[str, Callable[[NodeProgram], Any]] = {
    "python": PythonPath,
    "direct": DirectPath,
    "native": native_path,
}
"""What makes a path of each name. Native ones cannot be started, and refuse nodes with effects."""


def node_command(arguments: Sequence[str]) -> int:
    """Run `vega node`."""
    chosen = _parser().parse_args(arguments)
    action: Callable[[argparse.Namespace], int] = chosen.run
    return action(chosen)


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="vega node",
        description="Check, compile, run, test and compare nodes: small functions under a "
        "contract, in files of the suffix .vsp. `vesper` is a second name of this command.",
    )
    actions = parser.add_subparsers(dest="action", required=True)
    inputs = (
        Argument("--cases", type=int, default=_CASES, metavar="N", help=f"{_CASES:,}"),
        Argument("--seed", type=int, default=1, metavar="N", help="of the inputs; 1"),
    )
    places = Argument("places", nargs="+", type=Path, metavar="FILE|FOLDER")
    add_action(actions, "check", _check, "find what is wrong with nodes", [places])
    add_action(
        actions,
        "compile",
        _compile,
        "print a node as Python",
        [
            Argument("file", type=Path),
            Argument("-o", "--output", type=Path, metavar="FILE.py", help="write it there"),
        ],
    )
    running = add_action(
        actions,
        "run",
        _run,
        "run a node once",
        [
            Argument("file", type=Path),
            Argument(
                "--inputs",
                default="{}",
                metavar="JSON",
                help="the inputs, or @FILE to read them from",
            ),
            Argument(
                "--path", choices=[*_PATHS], default="python", help="which path answers; python"
            ),
            Argument(
                "--trace",
                type=Path,
                metavar="TRACE.json",
                help="record the run, for vega node replay",
            ),
        ],
    )
    _add_world(running)
    add_action(
        actions,
        "test",
        _test,
        "run all paths of nodes over random inputs",
        [
            places,
            Argument(
                "--no-optimise",
                dest="optimise",
                action="store_false",
                help="run nodes as they are written",
            ),
            *inputs,
        ],
    )
    add_action(
        actions,
        "diff",
        _diff,
        "run two versions of a node over random inputs",
        [Argument("file", type=Path), Argument("other", type=Path), *inputs],
    )
    add_native_actions(actions)
    add_proof_actions(actions)
    world = WorldActions(_add_world, _run_in_world, _object, _diff)
    add_debug_actions(actions, world)
    add_repository_actions(actions)
    actions.metavar = " | ".join(actions.choices)
    return parser


def _add_world(running: argparse.ArgumentParser) -> None:
    """Add what a node with effects needs."""
    declare(
        running,
        [
            Argument("--state", metavar="PLACE", help="a file or postgresql://…; in memory"),
            Argument(
                "--records",
                metavar="JSON",
                help='records to begin with, or @FILE: {"accounts": […]}',
            ),
            Argument(
                "--allow", action="append", default=[], metavar="NAME", help="grant a capability"
            ),
            Argument(
                "--secret",
                action="append",
                default=[],
                metavar="NAME=FILE",
                help="read a secret there",
            ),
            Argument("--user", default="", metavar="NAME", help="whom the audit names"),
            Argument("--audit", type=Path, metavar="FILE", help="keep the audit there"),
            Argument("--reveal", action="store_true", help="show what is sensitive, too"),
        ],
    )


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
    wrong += folder_problems(chosen.places, nodes, wrong)
    if chosen.json:
        good = [{"path": node.path, "node": node_summary(node.program)} for node in nodes]
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
        if node.table.performance.memory_limit_mb is not UNSET:
            said += "; memory_limit_mb is not enforced"
        print("\n".join(look.marked(Sign.DONE, Tone.OK, said)))
    for error in wrong:
        tell_error(error)
    return 1 if wrong else 0


def _compile(chosen: argparse.Namespace) -> int:
    node = load_node(chosen.file)
    source = python_source(node.program, chosen.file.name)
    if chosen.output is not None:
        write_output(chosen.output, source.encode(), "choose another file")
    if chosen.json:
        print_json({"node_id": node.program.node_id, "source": source})
    elif chosen.output is None:
        print(source, end="")
    return 0


def _run(chosen: argparse.Namespace) -> int:
    file = load_node(chosen.file)
    node = file.program
    inputs = _object("--inputs", chosen.inputs)
    read_sensitively(node, inputs)
    values = node.read_inputs(inputs)
    given = node.show_inputs(values)
    if chosen.trace and chosen.path == "native":
        raise UserError("native code has no steps to record; type --path python or --path direct")
    recorder = TraceRecorder(node, _PATHS[chosen.path])
    make = recorder if chosen.trace else _PATHS[chosen.path]
    left: dict[str, Any] | None = None
    if node.has_effects:
        outcome, left = _run_in_world(node, given, chosen, make)
    else:
        outcome = make(node).run(given)
    # The interpreter's names and values, whichever path answered: they say what was looked at.
    broken = _broken(node, values, outcome) if outcome.status is NodeStatus.BROKEN else ()
    ended = outcome
    if not chosen.reveal:
        outcome, broken = shown_outcome(node, outcome), shown_clauses(node, broken)
    if chosen.json:
        told = {**_outcome(outcome), "path": chosen.path, "broken": to_builtins(broken)}
        print_json(told if left is None else {**told, "records": left})
    elif outcome.status is NodeStatus.SUCCESS:
        print(json.dumps(outcome.outputs, indent=2))
    else:
        tell_error(_told(node, outcome, [str(each) for each in broken]))
    if chosen.trace:
        trace = recorder.trace(file, chosen.path, given, ended, reveal=chosen.reveal)
        write_trace(trace, chosen.trace)
    return 0 if outcome.status is NodeStatus.SUCCESS else 1


def _run_in_world(
    node: NodeProgram, given: dict[str, Any], chosen: argparse.Namespace, make: MakePath
) -> tuple[NodeOutcome, dict[str, Any] | None]:
    """Run a node with effects; of records in memory return those that are left, too."""
    records = open_records(chosen.state)
    try:
        grant = grant_of([*chosen.allow, *([] if chosen.state else ["database"])])
        check_grant(node, grant)  # before the records are written, too
        put_records(node, records, _object("--records", chosen.records or "{}"))
        secrets = dict(_secret(each) for each in chosen.secret)
        outcome = asyncio.run(_hosted(node, given, records, grant, secrets, make, chosen))
        if chosen.state:
            return outcome, None
        return outcome, shown_records(node, records, reveal=chosen.reveal)
    except CapabilityDenied as error:
        missing = " ".join(f"--allow {name}" for name in node.rules.capabilities)
        raise UserError(f"{error}; type: {missing}") from None
    finally:
        records.close()


async def _hosted(
    node: NodeProgram,
    given: dict[str, Any],
    records: RecordStore,
    grant: Grant,
    secrets: dict[str, Path],
    make: MakePath,
    chosen: argparse.Namespace,
) -> NodeOutcome:
    audit = as_audit(chosen.audit)
    host = NodeHost(
        records,
        grant=grant,
        path=make,
        secrets=lambda name: _read_secret(name, secrets),
        audit=audit,
        user=chosen.user,
    )
    try:
        return await host.run(node, given)
    finally:
        if audit is not None:
            await audit.aclose()


def _secret(given: str) -> tuple[str, Path]:
    name, sign, path = given.partition("=")
    if not sign:
        raise UserError(f"--secret {given[:40]!a} names no file; type: --secret NAME=FILE")
    return name, Path(path)


def _read_secret(name: str, secrets: dict[str, Path]) -> str:
    if name not in secrets:
        raise UserError(f"the secret {name} is not given; type: --secret {name}=FILE")
    try:
        return secrets[name].read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise UserError(f"{secrets[name]} cannot be read: {error}; name another file") from None


def _object(option: str, given: str) -> dict[str, Any]:
    """Return an object of a command line. Numbers with a point stay texts, since a float would not
    be exact."""
    try:
        text = Path(given[1:]).read_text("utf-8") if given.startswith("@") else given
        read = json.loads(text, parse_float=str, object_pairs_hook=_once)
    except OSError as error:
        raise UserError(f"{given[1:]} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{option} is no JSON: {error}; type for example: {option} {_EXAMPLES[option]}"
        ) from None
    if not isinstance(read, dict):
        raise UserError(f"{option} is no object; type for example: {option} {_EXAMPLES[option]}")
    return read  # pyright: ignore[reportUnknownVariableType]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. JSON takes the last of two names, which may be another amount."""
    names = [name for name, _ in pairs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"{twice[:40]!a} stands twice in it")
    return dict(pairs)


def _outcome(outcome: NodeOutcome) -> dict[str, Any]:
    error = None
    if outcome.status is NodeStatus.ERROR:
        error = {"error_code": outcome.reason, "message": f"at step {outcome.step}"}
    return {**to_builtins(outcome), "status": str(outcome.status), "error": error}


def _broken(
    node: NodeProgram, values: dict[str, Any], outcome: NodeOutcome
) -> tuple[BrokenClause, ...]:
    """Return the clauses that do not hold: of those before a run with the values that they looked
    at; of those after it the first one, whose values are gone with the run."""
    if before := judge(node.before, values).broken:
        return before
    found = (each for each in node.after if outcome.reason == f"{each.kind}: {each.text}")
    return tuple(BrokenClause(each.kind, each.text, each.line, {}) for each in found)[:1]


def _told(node: NodeProgram, outcome: NodeOutcome, broken: list[str]) -> str:
    where = f" at step {outcome.step}" if outcome.step else ""
    match outcome.status:
        case NodeStatus.ERROR:
            return f"{node.node_id} ends with the error {outcome.reason}{where}"
        case NodeStatus.TRAP if outcome.reason not in HANDLED:
            return (
                f"{node.node_id} has no result: {outcome.reason}{where}; nothing of it is kept, "
                "and it may be run again"
            )
        case NodeStatus.TRAP:
            return (
                f"{node.node_id} has no result: {outcome.reason}{where}; give the step an error "
                f"for it, as in error_handling: {{{outcome.reason}: CODE}}, or bound the inputs"
            )
        case _:
            said = "; ".join(broken)
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
