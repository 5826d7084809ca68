"""The operations behind the MCP tools: check a program, quote it, run it, list and kill what runs,
and render the results as JSON.
"""

import asyncio
import json
import re
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from vegakit.control import (
    ControlClient,
    ProcessView,
    Question,
    answer_command,
    connect,
    render_question,
)
from vegakit.errors import CapabilityDenied, ContractViolated, ToolFailed, UserError
from vegakit.host import Agent, PreparedGrant, arguments
from vegakit.lang import DataflowGraph, ModelTerms, Quote, card
from vegakit.money import Money, dollars, show
from vegakit.policy import Grant, sanitise
from vegakit.program import (
    MOST_LINKS,
    AdmissionRequest,
    AdmittedProgram,
    AgentTerms,
    Inspection,
    ProgramGrant,
    RefusalReason,
    RefusedProgram,
    over_remaining_budget,
    refused,
)
from vegakit.sdk import Runtime, VegaProgram
from vegakit.server.policy import (
    CardRequest,
    InterruptsRequest,
    KillRequest,
    ProgramRequest,
    PsRequest,
    RunRequest,
    ServerPolicy,
)
from vegakit.server.runs import ProgressCallback, Runs, run_id
from vegakit.tools import Files

# What clients are shown, as JSON: amounts of money are text, as in programs.


def shown(page: dict[str, Any]) -> str:
    return json.dumps(page, indent=1, ensure_ascii=False, default=str)


def quote_page(quoted: Quote) -> dict[str, Any]:
    """null where nothing sets a bound."""
    return {
        "at_most": _amount(quoted.total),
        "calls": quoted.calls,
        "processes": quoted.processes,
        "lines": [
            {"file": one.file, "line": one.line, "what": one.what}
            | {"calls": one.calls, "at_most": _amount(one.worst)}
            for one in quoted.lines
        ],
        "unbounded": [
            {"file": one.file, "line": one.line, "why": one.why, "capped_by": _amount(one.cap)}
            for one in quoted.unbounded
        ],
    }


def dataflow_page(flow: DataflowGraph) -> dict[str, Any]:
    """What may run side by side, wave by wave, and what waits for what."""
    places = {step.id: f"line {step.line} {step.what}" for step in flow.steps}
    return {
        "function": flow.name,
        "at_once": [[places[one] for one in wave] for wave in flow.waves[:MOST_LINKS]],
        "waits": [
            f"{places[link.after]} after {places[link.before]}: {link.text}"
            for link in flow.links[:MOST_LINKS]
        ],
    }


def view_row(view: ProcessView, name: str, now_ms: int) -> dict[str, Any]:
    return {
        "id": name,
        "kind": view.kind,
        "state": view.state,
        "health": view.health,
        "waiting_for": sanitise(view.waiting_for),
        "seconds": max(0, now_ms - view.since_ms) / 1_000,
        "spent": show(view.spent),
        "left": _amount(view.left),
    }


def question_row(question: Question, now_ms: int) -> dict[str, Any]:
    """The text is spelled: a backslash begins an escape of JSON."""
    left_ms = None if question.expires_ms is None else max(0, question.expires_ms - now_ms)
    return {
        "id": question.id,
        "kind": question.kind,
        "process": sanitise(question.process),
        "text": question.text,
        "seconds_left": None if left_ms is None else left_ms / 1_000,
        "answer": answer_command(question),
    }


def _amount(nanos: int | None) -> str | None:
    return None if nanos is None else show(Money(nanos))


# Programs that clients send or name: read below one folder.
#
# A path is opened beneath the root, without links; what a program uses of other files is read so
# too.


_SUFFIXES = {"vega": ".vega", "python": ".py"}
_READS = Grant(("fs::read",), paths=("**",))
_MOST_BYTES = 1 << 20


class Project:
    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._files = Files(self.root, _READS, max_bytes=_MOST_BYTES)

    async def program_text(self, asked: ProgramRequest) -> tuple[str, str]:
        if bool(asked.source) == bool(asked.path):
            raise UserError("give either `source`, the text of a program, or `path`, its file")
        if asked.source:
            return f"program{_SUFFIXES[asked.language]}", asked.source
        if not asked.path.endswith(tuple(_SUFFIXES.values())):
            known = " or ".join(_SUFFIXES.values())
            raise UserError(f"{asked.path[:80]!a} is no program: its name has to end in {known}")
        try:
            return asked.path, await self._content(asked.path)
        except (CapabilityDenied, ToolFailed) as error:
            raise UserError(
                f"{error}; give a plain path from the project's folder, such as lib/review.vega"
            ) from None

    async def text(self, name: str) -> str | None:
        try:
            return await self._content(name)
        except (CapabilityDenied, ToolFailed):
            return None

    async def _content(self, name: str) -> str:
        content = await self._files.read(name)
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise UserError(f"{name!a} is not UTF-8 text: {error.reason}; save it so") from None


# Runtimes of this user that the server did not start: only if it was started to reach them.


_NAME = re.compile(r"[\w.~-]{0,60}", re.ASCII)


class RemoteRuntimes:
    def __init__(self, server_policy: ServerPolicy) -> None:
        self._granted = server_policy.all_runtimes

    async def ps(self, at: str) -> dict[str, Any]:
        remote = self._at(at)
        runtime, views = await remote.info(), await remote.ps()
        left = None if runtime.left is None else show(runtime.left)
        rows = [view_row(view, view.path, runtime.now_ms) for view in views]
        return {"runtime": runtime.name, "os_pid": runtime.os_pid, "processes": rows, "left": left}

    async def kill(self, at: str, name: str) -> dict[str, Any]:
        return to_builtins(await self._at(at).kill(name, tree=True))

    def _at(self, at: str) -> ControlClient:
        """By its name or pid; a path could lead to any socket of this machine."""
        if not self._granted:
            raise UserError(
                "this server shows and ends only what it runs itself; leave out `at`. Its owner "
                "can widen that: vega mcp serve --all-runtimes"
            )
        if not _NAME.fullmatch(at) or at.endswith(".sock"):
            raise UserError(f"{at[:80]!a} is no name and no OS pid of a runtime")
        return connect(at or None)


# What each tool does for a client: look at a program, price it, run it, see and end what runs.


current_client: ContextVar[str] = ContextVar("vega_client", default="")
"""Whose request it is: clients take turns."""


@dataclass(frozen=True)
class OperationResult:
    """`page` says the same to programs. What `is_spelled` is harmless to read as it is, and may not
    be cut."""

    text: str
    page: dict[str, Any] | None = None
    refused: bool = False
    is_spelled: bool = False


class Operations:
    """Programs are looked at in processes of their own, each client in its turn, and long pages
    are written in threads: a large program keeps nobody else waiting."""

    def __init__(self, runtime: Runtime, server_policy: ServerPolicy) -> None:
        self._runtime = runtime
        self._server_policy = server_policy
        self._project = Project(server_policy.root)
        self._remote_runtimes = RemoteRuntimes(server_policy)
        self.runs = Runs(runtime, server_policy.budget, server_policy.may.grant)
        known = {name: self._terms(name) for name in sorted(server_policy.models)}
        self._admission_grant = ProgramGrant(
            server_policy.budget,
            server_policy.may,
            {},
            server_policy.models,
            AgentTerms({}, known),
            languages=(),
        )
        self._permit = PreparedGrant(self._admission_grant)
        runtime.admission_service.warm(wholly=True)

    async def check(self, asked: ProgramRequest) -> OperationResult:
        inspection = await self._inspect(AdmissionRequest.CHECK, asked)
        page = {"in_order": inspection.is_sound, "diagnostics": list(inspection.found)}
        if not inspection.is_sound:
            return OperationResult(inspection.shown, page, refused=True)
        return OperationResult("\n".join(filter(None, [inspection.shown, "in order"])), page)

    async def cost(self, asked: ProgramRequest) -> OperationResult:
        inspection = await self._inspect(AdmissionRequest.COST, asked)
        if inspection.quoted is None:
            return OperationResult(inspection.shown, refused=True)
        page = await asyncio.to_thread(quote_page, inspection.quoted)
        page["left"] = show(self.runs.left())
        return OperationResult(await asyncio.to_thread(shown, page), page)

    async def explain(self, asked: ProgramRequest) -> OperationResult:
        inspection = await self._inspect(AdmissionRequest.EXPLAIN, asked)
        manifest = inspection.manifest
        if manifest is None:
            return OperationResult(inspection.shown, refused=True)
        page = {
            "manifest": to_builtins(manifest),
            "not_granted": self._server_policy.outside(manifest),
            "flows": await asyncio.to_thread(
                lambda: list(map(dataflow_page, inspection.flows or ()))
            ),
        }
        return OperationResult(await asyncio.to_thread(shown, page), page)

    async def run(
        self, asked: RunRequest, report_progress: ProgressCallback | None = None
    ) -> OperationResult:
        inspection = await self._inspect(AdmissionRequest.RUN, asked, asked.budget)
        if inspection.verdict is None:
            return OperationResult(inspection.shown, refused=True)
        accepted = self._admitted(inspection.verdict)
        if isinstance(accepted, RefusedProgram):
            return OperationResult(accepted.text, {"refused": accepted.kind}, refused=True)
        module = accepted.module
        program = VegaProgram(module, self._project.root)
        try:
            given = arguments(module.functions[module.main], asked.arguments)
        except ContractViolated as error:
            raise UserError(f"{error}; give them in `arguments`, in order") from None
        result = await self.runs.run(program, given, accepted.cost, report_progress)
        page = to_builtins(result) | {"spent": show(result.spent), "left": show(self.runs.left())}
        return OperationResult(shown(page), page, refused=bool(result.error))

    async def ps(self, asked: PsRequest) -> OperationResult:
        if asked.at or self._server_policy.all_runtimes:
            page = await self._remote_runtimes.ps(asked.at)
        else:
            now = self._runtime.clock.now()
            rows = [view_row(view, run_id(view.path), now) for view in self.runs.views()]
            page = {"processes": rows, "left": show(self.runs.left())}
        return OperationResult(shown(page), page)

    async def interrupts(self, _: InterruptsRequest) -> OperationResult:
        """Never answered from here: a client is a program, and nobody knows what it was told."""
        now, questions = self._runtime.clock.now(), self._runtime.interrupts()
        page = {"questions": [question_row(one, now) for one in questions]}
        shown = await asyncio.to_thread(lambda: list(map(render_question, questions)))
        text = "\n\n".join(map("\n".join, shown))
        return OperationResult(text or "nothing is asked", page, is_spelled=True)

    async def kill(self, asked: KillRequest) -> OperationResult:
        if asked.at or self._server_policy.all_runtimes:
            page = await self._remote_runtimes.kill(asked.at, asked.id)
        else:
            page = {"ended": await self.runs.kill(asked.id)}
        return OperationResult(shown(page), page)

    async def card(self, asked: CardRequest) -> OperationResult:
        return OperationResult(card(asked.language))

    async def _inspect(
        self, purpose: AdmissionRequest, asked: ProgramRequest, budget: str = ""
    ) -> Inspection:
        name, text = await self._project.program_text(asked)
        permit, most = self._permit, self._admission_grant.max_cost
        if budget and dollars(budget) < most:
            permit = PreparedGrant(replace(self._admission_grant, max_cost=dollars(budget)))
        admission_service, read = self._runtime.admission_service, self._project.text
        return await admission_service.inspect_program(
            purpose, text, name, permit, current_client.get(), read
        )

    def _admitted(
        self, verdict: AdmittedProgram | RefusedProgram
    ) -> AdmittedProgram | RefusedProgram:
        """Before its first call: inside the charter, and of a price that is left."""
        if isinstance(verdict, RefusedProgram):
            return verdict
        if wrong := self._server_policy.outside(verdict.manifest):
            return refused(RefusalReason.RIGHTS, "it would touch what is not granted", *wrong)
        return over_remaining_budget(verdict, self.runs.left()) or verdict

    def _terms(self, name: str) -> ModelTerms | None:
        """None of a model that nobody knows: its price is not known either."""
        model_registry, agent = self._runtime.model_registry, Agent("quoted", model=name)
        try:
            model = model_registry.model_of(agent)
        except UserError:
            return None
        if model.price is None:
            return None
        return ModelTerms(
            model.price,
            model.context_tokens,
            model.default_max_tokens,
            model.bound_input,
            model_registry.retry_of(agent).max_attempts,
        )
