"""Nodes with effects: what they ask for, what is refused before they run, and what is shown."""

import json
from pathlib import Path
from typing import Any

import pytest
from campaigns.nodes import FOLDER

from tests.tools.confined.server import Server, reply
from vegakit.contracts import (
    CAPABILITIES,
    EFFECTS,
    FAILURES,
    HANDLED,
    OPERATIONS,
    EffectAnswer,
    NodeEffect,
    NodeProgram,
    NodeStatus,
    sensitivity_of,
    tree_capability,
)
from vegakit.errors import CapabilityDenied, UserError
from vegakit.policy import Grant
from vegakit.ports import AuditEntry, AuditLevel
from vegakit.sdk import Runtime
from vegakit.store import MemoryRecords
from vegakit.testing import ScriptedModel
from vegakit.vesper import (
    DirectPath,
    NodeHost,
    PythonPath,
    ask_with,
    callable_node,
    grant_of,
    load_node,
    parse_node,
    shown_outcome,
)
from vegakit.vesper.node_host import shown_inputs
from vegakit.vesper.node_paths import drive

PATHS = (PythonPath, DirectPath)

DEPOSIT = """\
node_id: deposit_v1
type: payment
intent: Put money into an account.
state:
  accounts:
    key: id
    fields: {id: string<20>, owner: string<20>, balance: integer, status: "enum[open, closed]"}
    constraints: [balance >= 0]
inputs:
  id: {type: string<20>}
  amount: {type: integer, constraints: [amount > 0]}
outputs:
  success:
    balance: integer
  error:
    error_code: enum[unknown, not_open, too_much]
contracts:
  postconditions: [SUM(accounts.balance) == old(SUM(accounts.balance)) + amount]
flow:
  - step: account
    operation: transition
    parameters: {key: id, change: accounts.status open -> open}
    error_handling: {missing: unknown, wrong_state: not_open}
  - step: balance
    operation: compute
    parameters: {value: account.balance + amount}
    error_handling: {overflow: too_much}
  - step: written
    operation: write
    parameters: {to: accounts, key: id, set: "{balance: balance}"}
security:
  capabilities_required: [database.write.accounts]
"""
ANN = {"id": "ann", "owner": "Ann", "balance": 5, "status": "open"}


def _node(text: str) -> NodeProgram:
    return parse_node(text.encode(), "d.vsp").program


def _memory(node: NodeProgram, *records: dict[str, Any]) -> MemoryRecords:
    memory = MemoryRecords()
    memory.put(node.states[0], records)
    return memory


@pytest.mark.parametrize("path", PATHS)
def test_a_run_asks_for_one_thing_after_another(path: Any) -> None:
    """It is sent each answer, and both paths ask for the same in the same order."""
    asked = list[tuple[str, str]]()

    def perform(effect: NodeEffect) -> EffectAnswer:
        asked.append((effect.step, effect.operation))
        if effect.operation == "touched":
            return EffectAnswer({"before": [ANN], "after": [{**ANN, "balance": 7}]})
        return EffectAnswer(ANN)

    run = path(_node(DEPOSIT)).start({"id": "ann", "amount": 2})
    outcome = drive(run, perform)
    assert (outcome.status, outcome.outputs) == (NodeStatus.SUCCESS, {"balance": 7})
    wanted = [("account", "lock"), ("account", "transition"), ("written", "write"), ("", "touched")]
    assert asked == wanted
    written = outcome.effects[2]
    assert written.arguments == {"state": "accounts", "key": "ann", "set": {"balance": 7}}
    assert written.capability == "database.write.accounts"


@pytest.mark.parametrize("path", PATHS)
def test_an_answer_of_another_type_is_a_failure(path: Any) -> None:
    """The world is not trusted with the types of a node."""
    run = path(_node(DEPOSIT)).start({"id": "ann", "amount": 2})
    outcome = drive(run, lambda _: EffectAnswer({"balance": "much"}))
    assert (outcome.status, outcome.reason, outcome.step) == ("trap", "failed", "account")


@pytest.mark.parametrize("path", PATHS)
def test_a_node_with_effects_does_not_run_by_itself(path: Any) -> None:
    """Nothing is made up for it."""
    with pytest.raises(UserError, match="has effects, which nobody carries out here"):
        path(_node(DEPOSIT)).run({"id": "ann", "amount": 2})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("capabilities_required: [database.write.accounts]", "audit_level: none", "declare it"),
        ("[database.write.accounts]", "[database.write.acounts]", "needs database.write.accounts"),
        ("[database.write.accounts]", "[database.write, exec.shell]", "needs no 'exec.shell'"),
        ("[database.write.accounts]", "[databse.write]", "did you mean database.write"),
        (
            "[database.write.accounts]",
            "[database.write]\n  denied_capabilities: [database.write.accounts]",
            "which is denied",
        ),
        ("[database.write.accounts]", "[database.write]\n  sensitive_data: [ammount]", "amount"),
        ("open -> open", "opened -> open", "did you mean open"),
        ("accounts.status", "accounts.balance", "is no enum"),
        ("accounts.status open", "acounts.status open", "did you mean accounts"),
        ("{balance: balance}", "{balanc: balance}", "did you mean balance"),
        ("{balance: balance}", "{id: id}", "is the key and stays"),
        ("{balance: balance}", "{balance: id}", "balance is a integer"),
        ("to: accounts, key: id", "to: accounts, key: amount", "string<20> is needed"),
        ("operation: write", "operation: wirte", "did you mean write"),
        ("missing: unknown", "mising: unknown", "did you mean missing"),
        ("key: id\n    fields", "key: owners\n    fields", "no field of type string or integer"),
        ("type: payment", "type: payment\nidempotent: {key: amount}", "no input of type string"),
        ("amount > 0", "SUM(accounts.balance) > 0", "there is no 'accounts' here"),
    ],
)
def test_a_mistake_is_told_before_anything_runs(old: str, new: str, said: str) -> None:
    """With what to write instead."""
    with pytest.raises(UserError, match=said):
        _node(DEPOSIT.replace(old, new, 1))


REMOTE = """\
node_id: charge_v1
type: payment
intent: Charge a card elsewhere.
types:
  Charge: {fields: {id: string<40>, paid: boolean}}
inputs:
  amount: {type: decimal<2>, constraints: [amount > 0]}
outputs:
  success: {id: string<40>}
  error: {error_code: "enum[declined]"}
flow:
  - step: token
    operation: secret
    parameters: {name: card_key}
  - step: charge
    operation: http
    type: Charge
    parameters:
      method: POST
      url: http://127.0.0.1:PORT/v1
      body: "{amount: amount}"
      secret: token
      item: "'a/b'"
    error_handling: {failed: declined}
  - step: id
    operation: compute
    guards: [charge.paid]
    error_handling: {guard: declined}
    parameters: {value: charge.id}
security:
  capabilities_required: ["network.http_client.127.0.0.1:PORT", secrets.read.card_key]
  audit_level: detailed
"""


async def test_http_reaches_the_declared_host_with_a_secret_that_is_never_shown() -> None:
    """The node and its traces only hold a reference."""
    answer = json.dumps({"id": "ch_1 of s3cr3t", "paid": True}).encode()
    async with Server(reply(answer)) as server:  # which echoes what it was sent
        node = _node(REMOTE.replace("PORT", str(server.port)))
        granted = grant_of([*node.rules.capabilities])
        host = NodeHost(grant=granted, secrets=lambda name: {"card_key": "s3cr3t"}[name])
        outcome = await host.run(node, {"amount": "9.99"})
    assert outcome.outputs == {"id": "ch_1 of [redacted]"}
    assert "s3cr3t" not in repr(outcome)
    assert "secret:card_key" in repr(outcome)
    head = server.heads[0].split("\r\n")
    assert head[0] == "POST /v1/a%2Fb HTTP/1.1"
    assert "authorization: Bearer s3cr3t" in [
        line.replace("Authorization", "authorization") for line in head
    ]


@pytest.mark.parametrize("body", [b"no json", b'{"id": 5, "paid": true}', b"[" * 200_000])
async def test_an_answer_that_does_not_fit_is_the_declared_error(body: bytes) -> None:
    """A host that says something else has failed."""
    async with Server(reply(body)) as server:
        node = _node(REMOTE.replace("PORT", str(server.port)))
        host = NodeHost(grant=grant_of([*node.rules.capabilities]), secrets=lambda _: "x")
        outcome = await host.run(node, {"amount": "9.99"})
    assert (outcome.status, outcome.reason) == ("error", "declined")


async def test_a_capability_that_is_not_granted_is_refused_before_the_run() -> None:
    """Nothing is sent, and the message names it."""
    async with Server(reply(b"{}")) as server:
        node = _node(REMOTE.replace("PORT", str(server.port)))
        for grant in (
            Grant(),
            grant_of(["secrets"]),
            grant_of(["network.http_client.example.com"]),
        ):
            with pytest.raises(CapabilityDenied, match=r"network\.http_client|secrets\.read"):
                await NodeHost(grant=grant, secrets=lambda _: "x").run(node, {"amount": "1.00"})
    assert server.heads == []


async def test_a_denial_of_the_host_wins() -> None:
    """Whatever is granted beside it."""
    node = _node(DEPOSIT)
    grant = Grant(("sql",), denials=("sql::write",))
    with pytest.raises(CapabilityDenied, match="sql::write is denied"):
        await NodeHost(_memory(node, ANN), grant=grant).run(node, {"id": "ann", "amount": 1})


AGENT = """\
node_id: classify_v1
type: agent
intent: Say what a message is about.
inputs:
  message: {type: string<200>}
outputs:
  success: {subject: "enum[billing, other]"}
  error: {error_code: "enum[no_answer]"}
flow:
  - step: subject
    operation: agent
    parameters:
      model: clerk
      prompt: Answer with a JSON text, billing or other.
      given: "{message: message}"
    error_handling: {failed: no_answer}
security: {capabilities_required: [agent.ask]}
"""


@pytest.mark.parametrize(
    ("said", "wanted"), [('"billing"', ("success", "")), ('"cats"', ("error", "no_answer"))]
)
async def test_an_agent_answers_under_the_type(said: str, wanted: tuple[str, str]) -> None:
    """Through the runtime, and so through its gate."""
    model = ScriptedModel([said])
    async with Runtime(models=lambda _: model) as rt:
        host = NodeHost(grant=grant_of(["agent.ask"]), ask=ask_with(rt))
        outcome = await host.run(_node(AGENT), {"message": "My bill?"})
    assert (outcome.status, outcome.reason) == wanted


def test_nobody_is_waited_for_while_records_are_locked() -> None:
    """An agent or a host after the first record is refused."""
    step = """\
  - step: said
    operation: agent
    type: string<10>
    parameters: {model: m, prompt: p}
"""
    text = DEPOSIT.replace("[database.write.accounts]", "[database.write, agent.ask]")
    with pytest.raises(UserError, match="agent waits for others, and step account has locked"):
        _node(text.replace("security:", f"{step}security:"))


def _folder(tmp_path: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (tmp_path / f"{name}.vsp").write_text(text)
    return tmp_path


CALLER = """\
node_id: bonus_v1
type: payment
intent: Put a bonus into an account.
inputs:
  id: {type: string<20>}
outputs:
  success: {balance: integer}
  error: {error_code: "enum[refused]"}
flow:
  - step: paid
    operation: call
    parameters: {node: deposit_v1, inputs: "{id: id, amount: 3}"}
    error_handling: {failed: refused}
  - step: balance
    operation: compute
    parameters: {value: paid.balance}
security:
  capabilities_required: [database.write.accounts]
"""


@pytest.mark.parametrize("path", PATHS)
async def test_a_node_calls_another_within_its_transaction(path: Any, tmp_path: Path) -> None:
    """Its errors are failures of the step."""
    folder = _folder(tmp_path, deposit=DEPOSIT, bonus=CALLER)
    node, state = load_node(folder / "bonus.vsp").program, _node(DEPOSIT).states[0]
    memory = MemoryRecords()
    memory.put(state, [ANN])
    host = NodeHost(memory, grant=grant_of(["database.write"]), path=path)
    assert (await host.run(node, {"id": "ann"})).outputs == {"balance": 8}
    assert (await host.run(node, {"id": "bob"})).reason == "refused"
    assert [record["balance"] for record in memory.all_records(state)] == [8]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("amount: 3", "amount: id", "amount of deposit_v1 is a integer"),
        ("amount: 3", "amuont: 3", "did you mean amount"),
        (", amount: 3", "", "deposit_v1 needs amount"),
        ("node: deposit_v1", "node: deposit_v2", "there is no node 'deposit_v2'"),
        ("[database.write.accounts]", "[]", "needs database.write.accounts"),
    ],
)
def test_a_call_is_checked(old: str, new: str, said: str, tmp_path: Path) -> None:
    """Types, names and what the other node needs."""
    folder = _folder(tmp_path, deposit=DEPOSIT, bonus=CALLER.replace(old, new))
    with pytest.raises(UserError, match=said):
        load_node(folder / "bonus.vsp")


def test_a_circle_of_calls_is_refused(tmp_path: Path) -> None:
    """Over two files as over one."""
    other = CALLER.replace("bonus_v1", "other_v1").replace("deposit_v1", "bonus_v1")
    other = other.replace(", amount: 3", "")
    folder = _folder(tmp_path, bonus=CALLER.replace("deposit_v1", "other_v1"), other=other)
    with pytest.raises(UserError, match="is called while it runs"):
        load_node(folder / "bonus.vsp")


class _Audit:
    def __init__(self) -> None:
        self.kept = list[tuple[AuditEntry, AuditLevel]]()

    async def append(self, entry: AuditEntry, level: AuditLevel = AuditLevel.BASIC) -> None:
        self.kept.append((entry, level))


SENSITIVE = DEPOSIT.replace(
    "[database.write.accounts]",
    "[database.write.accounts]\n  sensitive_data: [amount]\n  audit_level: detailed",
)


async def test_what_is_made_of_something_sensitive_is_shown_nowhere() -> None:
    """Inputs, outputs, what was asked for, errors and the audit hide it."""
    node, audit = _node(SENSITIVE), _Audit()
    host = NodeHost(_memory(node, ANN), grant=grant_of(["database"]), audit=audit, user="eve")  # pyright: ignore[reportArgumentType]
    outcome = await host.run(node, {"id": "ann", "amount": 77_001})
    assert outcome.outputs == {"balance": 77_006}
    assert sensitivity_of(node).names == {"amount", "balance"}
    shown = repr(shown_outcome(node, outcome)) + str(shown_inputs(node, {"amount": 77_001}))
    assert "7700" not in shown + str(audit.kept)
    assert "ann" in shown
    begun, transition, run = (entry for entry, _ in audit.kept)
    assert (begun.action, begun.decision, begun.trace_id) == (run.action, "begun", "")
    assert (transition.action, transition.subject) == (
        "node.transition",
        "accounts.status open -> open",
    )
    assert (run.user, run.actor, run.decision) == ("eve", "deposit_v1", "success")
    assert run.trace_id == outcome.transaction_id != ""
    with pytest.raises(UserError, match="it is sensitive and not shown") as told:
        await host.run(node, {"id": "ann", "amount": "77001"})
    assert "77001" not in str(told.value)


async def test_a_run_is_in_the_audit_before_its_transaction() -> None:
    """Whoever is killed between the two leaves that it was begun, and by whom."""
    node = _node(SENSITIVE)

    class _Killed(MemoryRecords):
        def transaction(self, timeout_s: float) -> Any:
            assert [entry.decision for entry, _ in audit.kept] == ["begun"]
            raise KeyboardInterrupt

    audit = _Audit()
    host = NodeHost(_Killed(), grant=grant_of(["database"]), audit=audit, user="eve")  # pyright: ignore[reportArgumentType]
    with pytest.raises(KeyboardInterrupt):
        await host.run(node, {"id": "ann", "amount": 1})
    [[entry, level]] = audit.kept
    assert (entry.user, entry.decision, level) == ("eve", "begun", "detailed")


async def test_a_node_that_is_called_keeps_its_own_rules(tmp_path: Path) -> None:
    """What is sensitive in it is hidden in the effects of the caller; it runs once for its key."""
    once = SENSITIVE.replace("contracts:", "idempotent: {key: id}\ncontracts:")
    folder = _folder(tmp_path, deposit=once, bonus=CALLER)
    node, memory = load_node(folder / "bonus.vsp").program, MemoryRecords()
    memory.put(_node(DEPOSIT).states[0], [ANN])
    host = NodeHost(memory, grant=grant_of(["database.write"]))
    for _ in range(2):
        outcome = await host.run(node, {"id": "ann"})
        assert outcome.outputs == {"balance": 8}
        [call] = shown_outcome(node, outcome).effects
        assert call.arguments["inputs"] == "[redacted]"
    assert [each["balance"] for each in memory.all_records(_node(DEPOSIT).states[0])] == [8]


def test_a_node_that_calls_what_only_evaluates_is_pure(tmp_path: Path) -> None:
    """So it needs no host: it is a function, and a tool of programs."""
    double = """\
node_id: double_v1
type: test
intent: Double a number.
inputs: {number: {type: integer, constraints: [number < 100]}}
outputs: {success: {twice: integer}}
flow: [{step: twice, operation: compute, parameters: {value: number + number}}]
"""
    caller = """\
node_id: fourfold_v1
type: test
intent: Double a number twice.
inputs: {number: {type: integer}}
outputs: {success: {found: integer}, error: {error_code: "enum[too_large]"}}
flow:
  - step: once
    operation: call
    parameters: {node: double_v1, inputs: "{number: number}"}
    error_handling: {failed: too_large}
  - {step: found, operation: compute, parameters: {value: once.twice + once.twice}}
"""
    file = load_node(_folder(tmp_path, double=double, fourfold=caller) / "fourfold.vsp")
    for path in ("python", "direct"):
        node = callable_node(file, path=path)
        assert node.is_pure
        assert node(number=3) == {"found": 12}
        assert node.outcome({"number": 100}).reason == "too_large"


def test_a_field_of_state_is_sensitive_by_itself() -> None:
    """Others of the same record are not."""
    text = DEPOSIT.replace(
        "[database.write.accounts]", "[database.write]\n  sensitive_data: [accounts.owner]"
    )
    assert sensitivity_of(_node(text)).names == frozenset()
    text = text.replace("accounts.owner", "accounts.balance")
    assert sensitivity_of(_node(text)).names == {"balance"}
    # The key of a record that is found by something sensitive is that very value.
    by_key = _node(text.replace("[accounts.balance]", "[id]"))
    assert by_key.rules.sensitive == ("id", "accounts.id")


def test_the_tables_of_operations_are_whole() -> None:
    """No name twice; every failure can be handled, and every capability is known to the gate."""
    assert not {*OPERATIONS} & {*EFFECTS}
    assert {each for row in EFFECTS.values() for each in row.failures} == {*FAILURES}
    assert {*FAILURES} < {*HANDLED}
    for name in CAPABILITIES:
        tree_capability(name)
    assert tree_capability("database.write.orders") == ("sql::write::orders", "")
    assert tree_capability("network.http_client.a.com") == ("net", "a.com")
    assert tree_capability("exec.shell_command")[0] == "process::exec"


async def test_a_timeout_ends_a_run_and_keeps_nothing() -> None:
    """Between any two things that it asks for."""

    class _Late:
        def __init__(self) -> None:
            self.at = 0

        def now(self) -> int:
            self.at += 300
            return self.at

        async def wait_until(self, at_ms: int) -> None: ...

    node = _node(DEPOSIT + "performance: {timeout_seconds: 1, expected_latency_ms: 5}\n")
    memory = _memory(node, ANN)
    host = NodeHost(memory, grant=grant_of(["database"]), clock=_Late())
    outcome = await host.run(node, {"id": "ann", "amount": 1})
    assert (outcome.status, outcome.reason) == ("trap", "timeout")
    assert memory.all_records(node.states[0]) == [ANN]


@pytest.mark.parametrize("name", ["account_transfer", "refund_once"])
def test_generated_python_asks_readably(name: str) -> None:
    """A person sees which step asks for what."""
    source = PythonPath(load_node(FOLDER / f"{name}.vsp").program).source
    assert "yield from _perform(" in source
    assert "vegakit" not in source
