"""Runs nodes with effects: what is not granted is refused before anything runs, the rest passes one
gate here (host).

    inputs -> granted? -> http, agent: waited for -> transaction: request seen before?
           -> locks -> read, write, sql, call -> contract holds? -> outcome + records kept -> audit

All changes of a run are one transaction, which is kept only if the run is a success: an error, a
trap and a broken clause leave nothing behind. A transaction that others got in the way of is run
again; what was waited for before it is remembered, so that nothing is sent twice by that.

With `idempotent: {key: …}` the outcome is kept in the same transaction, and a request of the same
key is given it without running. Errors are not kept: such a request may be sent again.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from secrets import token_hex
from typing import Any, Protocol, TypeAlias, cast
from urllib.parse import quote

from msgspec.json import decode, encode
from msgspec.structs import replace

from vegakit.concurrency import SteadyClock
from vegakit.contracts import (
    REMOTE,
    SECRET_PREFIX,
    ArrayType,
    BrokenClause,
    EffectAnswer,
    ItemLoop,
    NamedValue,
    NodeEffect,
    NodeOutcome,
    NodeProgram,
    NodeRun,
    NodeStatus,
    NodeStep,
    NodeValueError,
    RecordType,
    Sensitivity,
    StateRecords,
    TextType,
    call_answer,
    capabilities_of,
    judge,
    read_value,
    sensitivity_of,
    show_value,
    tree_capability,
)
from vegakit.errors import (
    CapabilityDenied,
    CatchableError,
    StoreError,
    UserError,
    WorldError,
    did_you_mean,
)
from vegakit.ids import TraceId
from vegakit.policy import Denied, Fetch, Grant, Use, decide, delegate, parse_url
from vegakit.ports import Audit, AuditEntry, AuditLevel, Clock
from vegakit.records import digest128
from vegakit.store import (
    MemoryRecords,
    RecordsConflict,
    RecordsTimeout,
    RecordStore,
    RecordTransaction,
)
from vegakit.tools import Http
from vegakit.vesper.node_paths import PythonPath, StateWorld, SteppedPath, drive

HIDDEN = "[redacted]"
_RERUNS = 20
_DEFAULT_TIMEOUT_S = 60
_TOKENS = 16

AskAgent: TypeAlias = Callable[[str, str, Any], Awaitable[str]]
"""Asks a model, with a prompt and what is given; returns what it says."""
MakePath: TypeAlias = Callable[[NodeProgram], SteppedPath]


class FetchHttp(Protocol):
    """A client of the web; `tools.Http` is one."""

    def fetch(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes
    ) -> Awaitable[Any]: ...


class _TimedOut(Exception):  # noqa: N818  (ends a run from within)
    pass


class NodeHost:
    """Runs nodes over records, under a grant."""

    def __init__(
        self,
        records: RecordStore | None = None,
        *,
        grant: Grant | None = None,
        path: MakePath = PythonPath,
        secrets: Callable[[str], str] | None = None,
        ask: AskAgent | None = None,
        http: Callable[[Grant], FetchHttp] = Http,
        audit: Audit | None = None,
        clock: Clock | None = None,
        user: str = "",
    ) -> None:
        """Without `records` they are in memory, and without a grant no node with effects runs."""
        self._records = MemoryRecords() if records is None else records
        self._grant, self._make_path = grant or Grant(), path
        self._secrets, self._ask, self._http = secrets, ask, http
        self._audit, self._clock, self._user = audit, clock or SteadyClock(), user
        self._paths: dict[str, tuple[NodeProgram, SteppedPath]] = {}

    async def run(self, node: NodeProgram, inputs: Mapping[str, Any]) -> NodeOutcome:
        """Run a node, and return its outcome. Raises `CapabilityDenied` before anything runs, and
        `NodeValueError` for inputs that do not fit."""
        check_grant(node, self._grant)
        read_sensitively(node, inputs)
        run = _NodeRun(self, node, inputs, self._deadline(node))
        await self._note_begun(node, inputs)
        outcome = await run.whole()
        await self._note(node, inputs, outcome)
        return outcome

    def _deadline(self, node: NodeProgram) -> int:
        return self._clock.now() + 1000 * (node.rules.timeout_s or _DEFAULT_TIMEOUT_S)

    def path_of(self, node: NodeProgram) -> SteppedPath:
        """Return the path of a node, made once."""
        known = self._paths.get(node.node_id)
        if known is None or known[0] is not node:
            known = self._paths[node.node_id] = (node, self._make_path(node))
        return known[1]

    def left_s(self, deadline_ms: int) -> float:
        """Return how long a run may still take, or end it."""
        left = (deadline_ms - self._clock.now()) / 1000
        if left <= 0:
            raise _TimedOut
        return left

    def transaction(self, timeout_s: float) -> Any:  # noqa: ANN401  (a context of records)
        """Begin a transaction."""
        return self._records.transaction(timeout_s)

    # What others are waited for.

    async def perform(self, node: NodeProgram, effect: NodeEffect) -> EffectAnswer:
        """Carry out what needs no records. What goes wrong there is an answer, too."""
        step = next(step for step in node.steps if step.name == effect.step)
        try:
            if effect.operation == "secret":
                return EffectAnswer(f"{SECRET_PREFIX}{effect.arguments['name']}")
            said = await (self._fetch if effect.operation == "http" else self._asked)(node, effect)
            assert step.effect is not None
            is_text = isinstance(step.effect.result, TextType)
            return EffectAnswer(said if is_text else json.loads(said, parse_float=str))
        except (WorldError, CatchableError, ValueError, OSError, RecursionError):
            return EffectAnswer(failure="failed")

    async def _fetch(self, node: NodeProgram, effect: NodeEffect) -> str:
        given = effect.arguments
        address = given["url"]
        if "item" in given:
            address = f"{address.rstrip('/')}/{quote(str(given['item']), safe='')}"
        headers = {"content-type": "application/json", "accept": "application/json"}
        secret = self._secret(node, given["secret"]) if "secret" in given else ""
        if secret:
            headers["authorization"] = f"Bearer {secret}"
        body = json.dumps(given["body"]).encode() if "body" in given else b""
        # Cut to the one host that the step declares, whatever more the node is granted.
        wanted = parse_url(given["method"], given["url"])
        assert isinstance(wanted, Fetch)
        granted = delegate(self._grant, Grant(("net",), hosts=(f"{wanted.host}:{wanted.port}",)))
        answer = await self._http(granted).fetch(
            given["method"], address, headers=headers, body=body
        )
        if not 200 <= answer.status < 300:
            raise ValueError(f"status {answer.status}")
        return _without(secret, answer.body.decode())

    def _secret(self, node: NodeProgram, reference: str) -> str:
        """Return a secret by a reference; of those only that the node declares."""
        name = reference.removeprefix(SECRET_PREFIX)
        if f"secrets.read.{name}" not in {used for used, _ in capabilities_of(node)}:
            raise CapabilityDenied(f"{node.node_id} reads no secret of this name")
        if self._secrets is None:
            raise UserError(f"nobody keeps the secret {name}; give NodeHost(secrets=…)")
        return self._secrets(name)

    async def _asked(self, node: NodeProgram, effect: NodeEffect) -> str:
        if self._ask is None:
            raise UserError(
                f"step {effect.step} asks a model, and there is none; "
                "give NodeHost(ask=ask_with(rt))"
            )
        given = effect.arguments
        return await self._ask(given["model"], given["prompt"], given.get("given"))

    # What is kept of a run.

    async def _note_begun(self, node: NodeProgram, inputs: Mapping[str, Any]) -> None:
        """Note a run that may change something before it does: after a kill behind the commit the
        audit has at least that it was begun."""
        if self._audit is not None and not node.only_evaluates:
            entry = _run_entry(node, inputs, self._clock.now(), self._user)
            await self._audit.append(entry, AuditLevel(node.rules.audit_level))

    async def _note(
        self, node: NodeProgram, inputs: Mapping[str, Any], outcome: NodeOutcome
    ) -> None:
        if self._audit is None:
            return
        level = AuditLevel(node.rules.audit_level)
        for entry in audit_entries(node, inputs, outcome, self._clock.now(), self._user):
            await self._audit.append(entry, level)


class _NodeRun:
    """One run: first what is waited for, then one transaction with the rest."""

    def __init__(
        self, host: NodeHost, node: NodeProgram, inputs: Mapping[str, Any], deadline_ms: int
    ) -> None:
        self._host, self._node, self._inputs, self._deadline = host, node, inputs, deadline_ms
        self._answers: list[tuple[NodeEffect, EffectAnswer]] = []
        """Of what others were waited for, in the order in which it was asked."""

    async def whole(self) -> NodeOutcome:
        """Run the node to its end."""
        try:
            outcome = await self._wait_for_others()
            if outcome is not None:
                return outcome
            return await asyncio.to_thread(self._transact)
        except (_TimedOut, RecordsTimeout, TimeoutError):
            return NodeOutcome(NodeStatus.TRAP, None, "timeout")

    async def _wait_for_others(self) -> NodeOutcome | None:
        """Carry out what stands before the first record, and return the outcome of a node that asks
        for nothing else."""
        run = self._start()
        answer: EffectAnswer | None = None
        while True:
            try:
                effect = next(run) if answer is None else run.send(answer)
            except StopIteration as end:
                asked = tuple(effect for effect, _ in self._answers)
                return replace(end.value, effects=asked)
            if effect.operation not in (*REMOTE, "secret"):
                run.close()
                return None
            async with asyncio.timeout(self._host.left_s(self._deadline)):
                answer = await self._host.perform(self._node, effect)
            self._answers.append((effect, answer))

    def _start(self) -> NodeRun:
        return self._host.path_of(self._node).start(self._inputs)

    def _transact(self) -> NodeOutcome:
        """Carry out the rest. It runs again from the start, with the answers that there are."""
        conflict: StoreError | None = None
        for _ in range(_RERUNS):
            try:
                left_s = self._host.left_s(self._deadline)
                with self._host.transaction(left_s) as records:
                    return self._within(records)
            except RecordsConflict as error:
                conflict = error
        assert conflict is not None
        raise conflict

    def _within(self, records: RecordTransaction) -> NodeOutcome:
        """Run within a transaction, and keep it if it is a success."""
        is_new = False

        def run() -> NodeOutcome:
            nonlocal is_new
            gate = _Gate(self._host, self._node, records, self._deadline, self._answers)
            outcome = drive(self._start(), gate)
            is_new = outcome.status is NodeStatus.SUCCESS
            name = f"txn_{token_hex(_TOKENS // 2)}" if is_new else ""
            return replace(outcome, transaction_id=name)

        outcome = _once(self._node, self._inputs, records, run)
        if is_new:
            self._host.left_s(self._deadline)
            records.is_kept = True
        return outcome


class _Gate:
    """Answers what a run asks for within its transaction."""

    def __init__(
        self,
        host: NodeHost,
        node: NodeProgram,
        records: RecordTransaction,
        deadline_ms: int,
        answers: list[tuple[NodeEffect, EffectAnswer]],
    ) -> None:
        self._host, self._node, self._records = host, node, records
        self._deadline, self._left = deadline_ms, list(answers)
        self._state = StateWorld(node, records)

    def __call__(self, effect: NodeEffect) -> EffectAnswer:
        self._host.left_s(self._deadline)
        if effect.operation in (*REMOTE, "secret"):
            return self._known(effect)
        if effect.operation == "sql":
            return self._query(effect)
        if effect.operation == "call":
            return self._call(effect)
        return self._state.answers[effect.operation](effect)

    def _known(self, effect: NodeEffect) -> EffectAnswer:
        """Return the answer that came before. A reference to a secret needs nobody."""
        if self._left:
            asked, answer = self._left.pop(0)
            assert asked == effect, "a run asks for the same again"
            return answer
        assert effect.operation == "secret"
        return EffectAnswer(f"{SECRET_PREFIX}{effect.arguments['name']}")

    def _query(self, effect: NodeEffect) -> EffectAnswer:
        step = next(step for step in self._node.steps if step.name == effect.step)
        assert step.effect is not None
        result = cast("ArrayType", step.effect.result)
        values = dict(step.effect.arguments).get("values")
        kinds = dict(cast("RecordType", values.type).fields) if values is not None else {}
        rows = self._records.query(
            effect.arguments["query"],
            effect.arguments.get("values", {}),
            kinds,
            cast("RecordType", result.item),
        )
        return EffectAnswer(failure="failed") if rows is None else EffectAnswer(rows)

    def _call(self, effect: NodeEffect) -> EffectAnswer:
        """Run another node within this transaction: it is kept or undone as a whole."""
        callee = self._node.callee(effect.arguments["node"])
        gate = _Gate(self._host, callee, self._records, self._deadline, [])
        given = effect.arguments["inputs"]

        def run() -> NodeOutcome:
            return drive(self._host.path_of(callee).start(given), gate)

        return call_answer(_once(callee, given, self._records, run))


def _once(
    node: NodeProgram,
    inputs: Mapping[str, Any],
    records: RecordTransaction,
    run: Callable[[], NodeOutcome],
) -> NodeOutcome:
    """Return the outcome that is kept under the key of a request, or run, and keep a success."""
    key = node.rules.key
    if not key:
        return run()
    request, digest = str(inputs.get(key, "")), digest128(dict(inputs))
    seen = records.claim(node.node_id, request, digest)
    if seen is not None:
        return _seen_outcome(node, request, digest, *seen)
    outcome = run()
    if outcome.status is NodeStatus.SUCCESS:
        # Not what it asked for: only the answer is given again.
        records.keep(node.node_id, request, encode(replace(outcome, effects=())).decode())
    return outcome


def _seen_outcome(
    node: NodeProgram, request: str, digest: str, seen_digest: str, outcome: str
) -> NodeOutcome:
    if seen_digest != digest:
        shown = HIDDEN if node.rules.key in sensitivity_of(node).names else repr(request[:80])
        raise UserError(
            f"{node.node_id} was run with the key {shown} and other inputs; give this request a "
            "key of its own"
        )
    return decode(outcome, type=NodeOutcome)


# Rights.


def check_grant(node: NodeProgram, grant: Grant) -> None:
    """Raise `CapabilityDenied` unless all is granted that a node and those it calls may ask for."""
    for name, step in capabilities_of(node):
        tree, _ = tree_capability(name)
        wanted = _access(step, tree)
        verdict = wanted if isinstance(wanted, Denied) else decide(grant, wanted)
        if isinstance(verdict, Denied):
            raise CapabilityDenied(
                f"{node.node_id} needs {name} at step {step.name}: {verdict.reason}"
            )


def _access(step: NodeStep, tree: str) -> Fetch | Use | Denied:
    if step.effect is not None and step.operation == "http":
        fixed = dict(step.effect.fixed)
        return parse_url(fixed["method"], fixed["url"])
    return Use(tree)


def grant_of(names: Iterator[str] | list[str]) -> Grant:
    """Return the grant of capabilities as nodes name them: `database.write.accounts`."""
    capabilities, hosts = list[str](), list[str]()
    for name in names:
        try:
            tree, host = tree_capability(name)
        except KeyError:
            raise UserError(
                f"there is no capability {name[:60]!a}; write for example database.write.accounts"
            ) from None
        capabilities.append(tree)
        hosts += [host] if host and tree == "net" else []
    return Grant((*dict.fromkeys(capabilities),), hosts=(*dict.fromkeys(hosts),))


# What is shown of a run: nothing sensitive, and nothing that is made of it.


def read_sensitively(node: NodeProgram, inputs: Mapping[str, Any]) -> None:
    """Check inputs; of a sensitive one that does not fit the message shows nothing."""
    try:
        node.read_inputs(inputs)
    except NodeValueError as error:
        name = error.where.partition(".")[0].partition("[")[0].removeprefix("a key of ")
        if name not in sensitivity_of(node).names:
            raise
        raise NodeValueError(
            name, "it does not fit its type; it is sensitive and not shown"
        ) from None


def shown_inputs(node: NodeProgram, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs as people may see them."""
    hidden = sensitivity_of(node).names
    return {name: HIDDEN if name in hidden else value for name, value in inputs.items()}


def shown_outcome(node: NodeProgram, outcome: NodeOutcome) -> NodeOutcome:
    """Return an outcome as people may see it."""
    if not (node.rules.sensitive or node.callees):
        return outcome
    hidden = sensitivity_of(node)
    outputs = outcome.outputs
    if outputs is not None:
        outputs = {name: HIDDEN if name in hidden.names else each for name, each in outputs.items()}
    effects = tuple(_shown_effect(hidden, effect) for effect in outcome.effects)
    return replace(outcome, outputs=outputs, effects=effects)


def _shown_effect(hidden: Sensitivity, effect: NodeEffect) -> NodeEffect:
    # Locks are on the keys of many steps: if one of these is sensitive, none is shown.
    keys = {"keys"} if any("key" in names for names in hidden.arguments.values()) else set[str]()
    names = hidden.arguments.get(effect.step, frozenset()) | keys
    arguments = {
        name: HIDDEN if name in names else value for name, value in effect.arguments.items()
    }
    return replace(effect, arguments=arguments)


def shown_clauses(node: NodeProgram, broken: tuple[BrokenClause, ...]) -> tuple[BrokenClause, ...]:
    """Return broken clauses as people may see them."""
    hidden = sensitivity_of(node).names

    def shown(name: str, value: Any) -> Any:  # noqa: ANN401
        return HIDDEN if name.removeprefix("old(").split(".")[0].rstrip(")") in hidden else value

    return tuple(
        replace(each, values={name: shown(name, value) for name, value in each.values.items()})
        for each in broken
    )


def _without(secret: str, said: str) -> str:
    """Return an answer without the secret that was sent: a host may echo it, and then it would be
    in outputs, traces and the audit."""
    for spelled in {secret, json.dumps(secret)[1:-1]} - {""}:
        said = said.replace(spelled, HIDDEN)
    return said


def put_records(node: NodeProgram, records: RecordStore, given: Mapping[str, Any]) -> None:
    """Write the records that a node begins with, by the names of its state. Those that are there
    stay as they are: a command that is typed again must not take back what a run did. None is
    written if one is refused."""
    known = list[tuple[StateRecords, list[Any]]]()
    for name, rows in given.items():
        states = [each.name for each in node.states]
        if name not in states:
            raise UserError(
                f"{node.node_id} has no state {name[:40]!a}; {did_you_mean(name, states)}"
            )
        if not isinstance(rows, list):
            raise UserError(f"the records of {name} are no list; write [{{…}}, {{…}}]")
        state = node.state(name)
        values = [_read(state, row) for row in cast("list[Any]", rows)]
        for value in values:
            _check_record(node, state, value)
        known.append((state, [show_value(state.record, value) for value in values]))
    for state, rows in known:
        records.put(state, [])  # makes the table
        there = {record[state.key] for record in records.all_records(state)}
        records.put(state, [row for row in rows if row[state.key] not in there])


def _check_record(node: NodeProgram, state: StateRecords, value: Any) -> None:  # noqa: ANN401
    """Refuse a record that breaks a constraint: a run that only reads it would take it as kept."""
    given = {state.name: (value,), f"old({state.name})": (value,)}
    about = [
        each
        for each in node.after
        if each.kind.startswith("constraint of ")
        and isinstance(each.expression, ItemLoop)
        and isinstance(each.expression.over, NamedValue)
        and each.expression.over.name == state.name
    ]
    if broken := judge(about, given).broken:
        shown = shown_clauses(node, broken)[0]
        raise UserError(f"the records of {state.name} are refused: {shown}; give one that keeps it")


def _read(state: StateRecords, row: Any) -> Any:  # noqa: ANN401
    return read_value(state.record, row, state.name)


def shown_records(node: NodeProgram, records: RecordStore, *, reveal: bool) -> dict[str, Any]:
    """Return all records of a node, as people may see them."""
    hidden = () if reveal else node.rules.sensitive
    return {
        state.name: [
            {
                name: HIDDEN if f"{state.name}.{name}" in hidden else value
                for name, value in record.items()
            }
            for record in records.all_records(state)
        ]
        for state in node.states
    }


def audit_entries(
    node: NodeProgram, inputs: Mapping[str, Any], outcome: NodeOutcome, at_ms: int, user: str
) -> Iterator[AuditEntry]:
    """Yield what the audit keeps: each transition, and the run itself."""
    shown = shown_outcome(node, outcome)
    trace = TraceId(outcome.transaction_id)
    if outcome.status is NodeStatus.SUCCESS:
        for effect in shown.effects:
            if effect.operation == "transition":
                given = effect.arguments
                changed = f"{given['state']}.{given['field']} {given['before']} -> {given['after']}"
                yield AuditEntry(
                    at_ms,
                    node.node_id,
                    "node.transition",
                    changed,
                    user=user,
                    inputs={"key": given["key"]},
                    trace_id=trace,
                )
    result = encode({"status": outcome.status, "outputs": shown.outputs, "reason": outcome.reason})
    run = _run_entry(node, inputs, at_ms, user)
    yield replace(run, decision=str(outcome.status), result=result.decode(), trace_id=trace)


def _run_entry(node: NodeProgram, inputs: Mapping[str, Any], at_ms: int, user: str) -> AuditEntry:
    return AuditEntry(
        at_ms,
        node.node_id,
        f"node.{node.kind}",
        node.node_id,
        user=user,
        inputs=shown_inputs(node, inputs),
        decision="begun",
    )


def ask_with(runtime: Any) -> AskAgent:  # noqa: ANN401  (a `Runtime`; imported only where used)
    """Return how steps ask models: through a runtime, under its budget, limits and journal."""

    async def ask(model: str, prompt: str, given: Any) -> str:  # noqa: ANN401
        from vegakit.sdk import Agent

        agent = Agent("node", model=model, instructions=prompt)
        return (await runtime.ask(agent, json.dumps(given))).text

    return ask
