"""`vega node debug`, `run --trace` and `replay`, as a person or a script would call them."""

import asyncio
import io
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from vegakit.cli import main
from vegakit.vesper import NodeHost, PythonPath, TraceRecorder, grant_of, load_node, write_trace
from vegakit.vesper.node_inputs import InputGenerator

SAMPLES = Path(__file__).parents[2] / "examples/nodes"
TRANSFER = SAMPLES / "transfer.vsp"
GIVEN = {"source": 1_000, "target": 5, "fees": 0, "amount": 400}
PAY = SAMPLES / "pay_order.vsp"
ORDER = {"id": 7, "customer": "ann", "price": "30.00", "status": "pending"}
WALLET = {"customer": "ann", "balance": "100.00", "spent": "0.00"}
PAID: dict[str, Any] = {"orders": [ORDER], "wallets": [WALLET]}
ACCOUNTS = {
    "accounts": [
        {"id": "a", "owner": "Ann Example", "balance": "50.00"},
        {"id": "b", "owner": "Bob Example", "balance": "0.00"},
    ]
}
STATEFUL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "account_transfer": (
        {"request_id": "r", "source_id": "a", "target_id": "b", "amount": "20.00"},
        ACCOUNTS,
    ),
    "pay_order": ({"order_id": 7}, PAID),
    "refund_once": (
        {
            "request_id": "r",
            "purchase_id": "p",
            "returned": "2026-01-05T00:00:00Z",
            "opened": False,
        },
        {
            "purchases": [
                {
                    "id": "p",
                    "email": "ann@example.com",
                    "paid": "40.00",
                    "refunded": "0.00",
                    "bought": "2026-01-01T00:00:00Z",
                    "status": "delivered",
                }
            ]
        },
    ),
    "reserve_stock": (
        {"order_id": "o", "sku": "s", "pieces": 3},
        {"articles": [{"sku": "s", "on_hand": 10, "reserved": 2}]},
    ),
}

Captured = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


class _Person(io.StringIO):
    def isatty(self) -> bool:
        return True


def _node(*arguments: object) -> int:
    return main(["node", *(each if isinstance(each, str) else _text(each) for each in arguments)])


def _text(given: object) -> str:
    return json.dumps(given) if isinstance(given, dict) else str(given)


def _typed(lines: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(lines.replace("; ", "\n") + "\n"))


def _debugged(
    capsys: Captured, monkeypatch: Patch, *arguments: object, typed: str = "quit"
) -> tuple[int, dict[str, Any]]:
    _typed(typed, monkeypatch)
    status = _node("debug", *arguments, "--json")
    return status, json.loads(capsys.readouterr().out)


def _recorded(folder: Path, file: Path, inputs: dict[str, Any], *more: object) -> Path:
    trace = folder / "trace.json"
    _node("run", file, "--inputs", inputs, "--trace", trace, *more)
    return trace


# Breakpoints.


@pytest.mark.parametrize(
    ("where", "inputs", "reason"),
    [
        ("contract_violation", {"amount": -1}, "constraint of amount 'amount > 0' does not hold"),
        ("contract_violation", {}, ""),
        ("input: amount > 399", {}, "input: amount > 399"),
        ("input: amount > 400", {}, ""),
        ("target", {}, "step target"),
        ("target", {"source": 1}, ""),
    ],
)
def test_it_stops_where_it_was_told(
    where: str, inputs: dict[str, int], reason: str, capsys: Captured, monkeypatch: Patch
) -> None:
    """And goes on to the end where there is nothing to stop at."""
    given = {**GIVEN, **inputs}
    _, told = _debugged(capsys, monkeypatch, TRANSFER, "--inputs", given, "--break", where)
    last = told["said"][-1]
    assert last["reason"] == reason
    assert (last["moments"]["direct"]["kind"] == "end") is not bool(reason)


def test_it_stops_before_a_state_changes(capsys: Captured, monkeypatch: Patch) -> None:
    """The transition is asked for, and not answered yet; and it is named."""
    arguments = (PAY, "--inputs", {"order_id": 7}, "--records", PAID, "--break", "state_transition")
    _, told = _debugged(capsys, monkeypatch, *arguments)
    last = told["said"][-1]
    assert last["reason"] == "orders.status pending -> paid"
    assert last["moments"]["direct"]["kind"] == "asked"
    _, told = _debugged(capsys, monkeypatch, *arguments, typed="continue")
    outcome = told["said"][-1]["moments"]["direct"]["outcome"]
    assert outcome == {"status": "success", "outputs": {"balance": "70.00", "status": "paid"}}


ASKING = """\
node_id: triage_v1
type: support
intent: Ask two models about a letter.
inputs:
  letter: {type: string<200>}
outputs:
  success: {second: string<40>}
flow:
  - step: first
    operation: agent
    type: string<40>
    parameters: {model: a/b, prompt: "What is it about?", given: letter}
  - step: second
    operation: agent
    type: string<40>
    parameters: {model: a/b, prompt: "How urgent?", given: first}
security: {capabilities_required: [agent.ask]}
"""


def _asked(folder: Path) -> tuple[Path, Path]:
    """Record a run whose models cost $0.004 and $0.006."""
    file, trace = folder / "triage.vsp", folder / "trace.json"
    file.write_text(ASKING)
    node, bills = load_node(file), iter([4_000_000, 6_000_000])
    spent = 0

    async def ask(model: str, prompt: str, given: Any) -> str:
        nonlocal spent
        spent += next(bills)
        return f"{given}!"

    recorder = TraceRecorder(node.program, PythonPath, spent=lambda: spent)
    host = NodeHost(grant=grant_of(["agent"]), path=recorder, ask=ask)
    outcome = asyncio.run(host.run(node.program, {"letter": "hello"}))
    write_trace(recorder.trace(node, "python", {"letter": "hello"}, outcome, reveal=False), trace)
    return file, trace


@pytest.mark.parametrize(
    ("limit", "step"), [("$0.004", "first"), ("$0.01", "second"), ("$0.010001", "")]
)
def test_it_stops_where_so_much_is_spent(
    limit: str, step: str, tmp_path: Path, capsys: Captured, monkeypatch: Patch
) -> None:
    """By what the answers of a trace cost; once."""
    file, trace = _asked(tmp_path)
    arguments = (file, "--trace", trace, "--break", f"spend={limit}")
    _, told = _debugged(capsys, monkeypatch, *arguments, typed="continue")
    stops = [each for each in told["said"] if each["reason"]]
    assert [each["moments"]["direct"]["step"] for each in stops] == ([step] if step else [])


# Two paths.


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """Generated code of a transfer with a fee that is wrong above 399."""
    made = tmp_path / "wrong.py"
    assert _node("compile", TRANSFER, "-o", made) == 0
    text = made.read_text()
    right = "\n        target = "
    assert right in text
    made.write_text(text.replace(right, f"{right}(1 if amount > 399 else 0) + "))
    return made


def test_paths_are_compared_to_the_first_step_that_differs(
    planted: Path, capsys: Captured, monkeypatch: Patch
) -> None:
    """It is named, with both values; what follows is not gone through."""
    paths = ("--comparative", "--path", planted, "--path", "direct", "--break", "divergence")
    status, told = _debugged(capsys, monkeypatch, TRANSFER, "--inputs", GIVEN, *paths)
    assert (status, told["difference"]["reason"]) == (1, "the paths differ at step target")
    values = [each["value"] for each in told["difference"]["moments"].values()]
    assert values == [406, 405]
    assert told["said"][-1] == told["difference"]
    given = {**GIVEN, "amount": 399}
    status, told = _debugged(capsys, monkeypatch, TRANSFER, "--inputs", given, *paths)
    assert (status, told["difference"]) == (0, None)
    assert {each["kind"] for each in told["said"][-1]["moments"].values()} == {"end"}


def test_what_differs_is_shown_side_by_side(
    planted: Path, capsys: Captured, monkeypatch: Patch
) -> None:
    """Steps that agree are shown once."""
    _typed("print target", monkeypatch)
    paths = ("--comparative", "--path", "direct", "--path", planted)
    assert _node("debug", TRANSFER, "--inputs", GIVEN, *paths) == 1
    told = capsys.readouterr().out
    assert told.count("step 2 source") == 1
    assert all(f"{path}: step 3 target" in told for path in ("direct", planted))
    assert "stopped: the paths differ at step target" in told
    assert f'target: {{"direct": 405, "{planted}": 406}}' in told


@pytest.mark.parametrize("sample", ["transfer", *STATEFUL])
def test_generated_python_and_the_interpreter_go_the_same_way(
    sample: str, capsys: Captured, monkeypatch: Patch
) -> None:
    """Step by step, with what they ask and are answered."""
    inputs, records = STATEFUL.get(sample, (GIVEN, {}))
    given = ("--inputs", inputs, "--records", records, "--comparative")
    status, told = _debugged(capsys, monkeypatch, SAMPLES / f"{sample}.vsp", *given)
    end = told["said"][-1]["moments"]
    assert (status, end["python"]) == (0, end["direct"])
    assert end["python"]["outcome"]["status"] == "success"


# The prompt.


def test_a_script_steps_goes_back_and_changes_values(capsys: Captured, monkeypatch: Patch) -> None:
    """A changed step is followed by all that depends on it; what is changed stays so."""
    _, told = _debugged(
        capsys,
        monkeypatch,
        TRANSFER,
        "--inputs",
        GIVEN,
        typed="step; back; step 2; modify 1 7; print fee; continue",
    )
    steps = [
        each["moments"]["direct"].get("step", each["moments"]["direct"]["kind"])
        for each in told["said"]
        if "moments" in each
    ]
    assert steps == "start fee start fee source fee source target fees end".split()
    assert {"fee": {"direct": 7}} in told["said"]
    outcome = told["said"][-1]["moments"]["direct"]["outcome"]
    assert outcome["outputs"] == {"source": 593, "target": 405, "fees": 7}


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("stpe", "did you mean step?"),
        ("print nothing", "there are: "),
        ("modify source", "modify fee 0.12"),
        ("modify 9 1", "has no step '9'"),
        ("modify source x", "'x' is no whole number"),
        ("break divergence", "add --comparative"),
        ("break spend=x", "like $1.50"),
        ("break input: amuont > 1", "amount"),
    ],
)
def test_what_is_typed_wrong_is_told_and_nothing_ends(
    typed: str, said: str, capsys: Captured, monkeypatch: Patch
) -> None:
    """The next command is read."""
    _typed(f"{typed}; continue", monkeypatch)
    assert _node("debug", TRANSFER, "--inputs", GIVEN) == 0
    told = capsys.readouterr()
    assert said in " ".join(told.err.split())
    assert "end success" in told.out


# Replay.


def _inputs_of(sample: Path) -> list[dict[str, Any]]:
    node = load_node(sample).program
    generator = InputGenerator(node, Random(3))
    return [node.show_inputs(generator.draw()) for _ in range(2)]


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.vsp")), ids=lambda path: path.stem)
def test_a_replay_is_the_run_again(sample: Path, tmp_path: Path, capsys: Captured) -> None:
    """Of every sample, from the start and from its last step, by both paths; nothing is
    performed."""
    inputs, records = STATEFUL.get(sample.stem, ({}, {}))
    for given in [inputs] if inputs else _inputs_of(sample):
        world = ["--records", records] if records else []
        trace = _recorded(tmp_path, sample, given, *world, "--path", "python")
        by_python = trace.read_text()
        _recorded(tmp_path, sample, given, *world, "--path", "direct")
        assert json.loads(trace.read_text())["steps"] == json.loads(by_python)["steps"]
        capsys.readouterr()
        assert _node("replay", trace, "--json") == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["differs"], told["changed"], told["asked"]) == (False, False, [])
        assert told["now"] == {**told["recorded"]}
        last = len(json.loads(by_python)["steps"])
        assert _node("replay", trace, "--from", max(1, last), "--json") == 0


def test_a_changed_node_is_seen_in_its_replay(tmp_path: Path, capsys: Captured) -> None:
    """With the first step that is another, and status 1."""
    trace = _recorded(tmp_path, TRANSFER, GIVEN)
    changed = tmp_path / "changed.vsp"
    text = TRANSFER.read_text()
    changed.write_text(text.replace("value: target + amount", "value: target + amount + 1"))
    assert changed.read_text() != text
    capsys.readouterr()
    assert _node("replay", trace, "--node", changed) == 1
    told = capsys.readouterr()
    assert "has changed since transfer_v1 was recorded" in " ".join(told.err.split())
    assert "target: 405 -> 406" in told.out


def test_a_changed_value_is_followed_without_performing_anything(
    tmp_path: Path, capsys: Captured
) -> None:
    """Records are computed from those of the trace: the broken contract is found, and the file
    stays as it was."""
    state = tmp_path / "records.db"
    world = ("--state", state, "--records", PAID, "--allow", "database")
    trace = _recorded(tmp_path, PAY, {"order_id": 7}, *world)
    before = state.read_bytes()
    capsys.readouterr()
    assert _node("replay", trace, "--modify", "step balance = 60.00", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["asked"][0]["arguments"]["set"] == {"balance": "60.00", "spent": "30.00"}
    assert told["now"]["reason"].startswith("invariant: SUM(wallets.spent")
    assert state.read_bytes() == before


def test_live_passes_the_gate(tmp_path: Path, capsys: Captured) -> None:
    """Nothing runs without a grant; with one the records are those that there are now."""
    trace = _recorded(tmp_path, PAY, {"order_id": 7}, "--records", PAID)
    state = tmp_path / "records.db"
    live = ("replay", trace, "--live", "--state", state, "--records", PAID)
    assert _node(*live) == 1
    assert "--allow database.write.orders" in " ".join(capsys.readouterr().err.split())
    assert _node(*live, "--allow", "database") == 0
    again = ("replay", trace, "--live", "--state", state, "--allow", "database", "--json")
    capsys.readouterr()
    assert _node(*again) == 1
    assert json.loads(capsys.readouterr().out)["now"]["reason"] == "not_pending"


def test_what_was_not_recorded_is_not_made_up(tmp_path: Path, capsys: Captured) -> None:
    """It is said what is missing, and how to give it."""
    _, trace = _asked(tmp_path)
    assert _node("replay", trace, "--modify", "step first = other") == 1
    assert """give one: --answers '{"second": …}'""" in " ".join(capsys.readouterr().err.split())
    answers = ("--answers", {"second": "now"}, "--json")
    assert _node("replay", trace, "--modify", "step first = other", *answers) == 0
    assert json.loads(capsys.readouterr().out)["now"]["outputs"] == {"second": "now"}
    paid = _recorded(tmp_path, PAY, {"order_id": 7}, "--records", PAID)
    bob = json.dumps({**ORDER, "customer": "bob"})
    assert _node("replay", paid, "--modify", f"step order = {bob}") == 1
    assert "wallets 'bob', which was not recorded" in " ".join(capsys.readouterr().err.split())


# What is sensitive.

SECRETIVE = """\
node_id: limit_v1
type: credit
intent: Decide on a limit.
inputs:
  income: {type: integer, constraints: [income >= 0, income <= 1000000]}
  wanted: {type: integer, constraints: [wanted >= 0, wanted <= 1000000]}
outputs:
  success: {granted: boolean}
flow:
  - step: most
    operation: compute
    parameters: {value: income / 3}
  - step: granted
    operation: compute
    parameters: {value: wanted <= most}
security: {sensitive_data: [income]}
"""


def test_nothing_sensitive_is_in_a_trace_or_on_the_screen(
    tmp_path: Path, capsys: Captured, monkeypatch: Patch
) -> None:
    """Not what is computed of it, either; who replays it gives it again."""
    file = tmp_path / "limit.vsp"
    file.write_text(SECRETIVE)
    given = {"income": 91827, "wanted": 5}
    trace = _recorded(tmp_path, file, given)
    _typed("continue; print income; print most", monkeypatch)
    assert _node("debug", file, "--inputs", given, "--break", "contract_violation") == 0
    told = trace.read_text() + capsys.readouterr().out
    assert [word in told for word in ("91827", "30609", "[redacted]")] == [False, False, True]
    assert _node("replay", trace) == 1
    assert "the input income is sensitive" in " ".join(capsys.readouterr().err.split())
    assert _node("replay", trace, "--inputs", {"income": 91827}) == 0
    shown = _recorded(tmp_path, file, given, "--reveal")
    capsys.readouterr()
    assert "30609" in shown.read_text()
    assert _node("replay", shown, "--reveal") == 0
    assert "30609" in capsys.readouterr().out


def test_sensitive_fields_of_records_are_left_out(tmp_path: Path) -> None:
    """Of all that is read, written and touched; the replay does without them."""
    inputs, records = STATEFUL["account_transfer"]
    trace = _recorded(tmp_path, SAMPLES / "account_transfer.vsp", inputs, "--records", records)
    assert "Example" not in trace.read_text()
    assert _node("replay", trace) == 0
    looking = tmp_path / "looking.vsp"
    text = (SAMPLES / "account_transfer.vsp").read_text()
    looking.write_text(text.replace("amount <= source.balance", "source.owner != 'x'"))
    assert _node("replay", trace, "--node", looking) == 1


# A fix.


FIX = "step target: target + amount + 1"


def test_a_fix_is_a_new_version_beside_the_old_one(tmp_path: Path, capsys: Captured) -> None:
    """Only the step and the version are changed; and it is compared with the old one."""
    file = tmp_path / "transfer.vsp"
    file.write_text(TRANSFER.read_text())
    trace = _recorded(tmp_path, file, GIVEN)
    assert _node("replay", trace, "--modify", FIX) == 0
    assert [*tmp_path.glob("*.vsp")] == [file]
    assert _node("replay", trace, "--modify", FIX, "--apply", "--cases", 20) == 0
    told = capsys.readouterr().out
    assert "target: 405 -> 406" in told
    assert "transfer_v1: 20 inputs" in told
    assert file.read_text() == TRANSFER.read_text()
    old, new = (path.read_text().splitlines() for path in (file, tmp_path / "transfer_v2.vsp"))
    assert [line for line in new if line not in old] == [
        "node_id: transfer_v2",
        '    parameters: {value: "target + amount + 1"}',
    ]
    assert len(old) == len(new)
    assert _node("replay", trace, "--modify", FIX, "--apply", "--cases", 5) == 0
    assert (tmp_path / "transfer_v3.vsp").exists()


@pytest.mark.parametrize(("typed", "versions"), [("y", 2), ("n", 1), ("", 1)])
def test_a_person_is_asked(
    typed: str, versions: int, tmp_path: Path, capsys: Captured, monkeypatch: Patch
) -> None:
    """No is what nothing means."""
    file = tmp_path / "transfer.vsp"
    file.write_text(TRANSFER.read_text())
    trace = _recorded(tmp_path, file, GIVEN)
    monkeypatch.setattr("sys.stdin", _Person(f"{typed}\n"))
    assert _node("replay", trace, "--modify", FIX, "--cases", 5) == 0
    assert "Apply fix? [y/N]" in capsys.readouterr().out
    assert len([*tmp_path.glob("*.vsp")]) == versions


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--modify", "target"], "'step fee: EXPRESSION'"),
        (["--modify", "step target: target + true"], "true"),
        (["--modify", "step 1 = 7", "--apply"], "--apply keeps an expression"),
        (["--modify", "step nowhere = 1"], "has no step 'nowhere'"),
        (["--from", "99"], "--from is the number of a step, 1 to "),
    ],
)
def test_a_change_that_cannot_be_is_told(
    arguments: list[str], said: str, tmp_path: Path, capsys: Captured
) -> None:
    """And nothing is written."""
    trace = _recorded(tmp_path, TRANSFER, GIVEN)
    assert _node("replay", trace, *arguments) == 1
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_file_that_is_no_trace_is_told(tmp_path: Path, capsys: Captured) -> None:
    """With how to make one."""
    wrong = tmp_path / "wrong.json"
    wrong.write_text("[1]")
    assert _node("replay", wrong) == 1
    assert "record one: vega node run FILE --trace" in " ".join(capsys.readouterr().err.split())
