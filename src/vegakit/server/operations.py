"""The control operations as an MCP server offers them: programs are checked, quoted and run under
its policy, and clients see and end what they run.
"""

import asyncio
import re
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs, to_builtins

from vegakit.control import (
    CheckReply,
    ControlClient,
    CostLine,
    CostReply,
    ExplainReply,
    FlowReply,
    KillResult,
    Language,
    ProcessView,
    ProgramRequest,
    Question,
    RunReply,
    RuntimeView,
    UnboundedLine,
    connect,
)
from vegakit.errors import CapabilityDenied, ContractViolated, ToolFailed, UserError
from vegakit.host import Agent, PreparedGrant, arguments as arguments_of
from vegakit.lang import DataflowGraph, ModelTerms, Quote, card, in_order
from vegakit.money import Money, dollars, format_money
from vegakit.policy import Grant
from vegakit.ports import tokenizer_of
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
from vegakit.sdk import Runtime, RuntimeControl, VegaProgram
from vegakit.server.policy import ServerPolicy
from vegakit.server.runs import ProgressCallback, Runs, run_id, run_path
from vegakit.tools import Files

# Quotes and dataflow graphs as replies.


def cost_reply(quoted: Quote, left: Money) -> CostReply:
    """Return a quote as a reply."""
    return CostReply(
        amount(quoted.total),
        quoted.calls,
        quoted.processes,
        tuple(
            CostLine(one.file, one.line, one.what, one.calls, amount(one.worst))
            for one in quoted.lines
        ),
        tuple(
            UnboundedLine(one.file, one.line, one.why, amount(one.cap)) for one in quoted.unbounded
        ),
        format_money(left),
        quoted.paid_repeats,
    )


def flow_reply(flow: DataflowGraph) -> FlowReply:
    """Return a dataflow graph as a reply, cut to a readable number of links."""
    places = {step.id: f"line {step.line} {step.what}" for step in flow.steps}
    return FlowReply(
        flow.name,
        tuple(tuple(places[one] for one in wave) for wave in flow.waves[:MOST_LINKS]),
        tuple(
            f"{places[link.after]} after {places[link.before]}: {link.text}"
            for link in flow.links[:MOST_LINKS]
        ),
    )


def amount(nanos: int | None) -> str | None:
    """Return an amount of money as text, or None where nothing sets a bound."""
    return None if nanos is None else format_money(Money(nanos))


# Programs that clients send or name: read below one folder.
#
# A path is opened beneath the root, without links; what a program uses of other files is read so
# too.


_SUFFIXES = {"vega": ".vega", "python": ".py"}
_READS = Grant(("fs::read",), paths=("**",))
_MOST_BYTES = 1 << 20


class Project:
    """The folder of the project, from which programs are read and nothing else."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._files = Files(self.root, _READS, max_bytes=_MOST_BYTES)

    async def program_text(self, asked: ProgramRequest) -> tuple[str, str]:
        """Return the name and the text of a program."""
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
        """Return the text of a file, or None if it cannot be read."""
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


# The operations themselves.


current_client: ContextVar[str] = ContextVar("vega_client", default="")
"""The client whose request it is: clients take turns."""
current_progress: ContextVar[ProgressCallback | None] = ContextVar("vega_progress", default=None)
"""The way to tell the client of this request what its run prints."""

_NAME = re.compile(r"[\w.~-]{0,60}", re.ASCII)


class ProgramRefusedError(UserError):
    """A program was not admitted, for the reason `kind`."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Operations:
    """Implements the operations that clients may ask for. It never answers a question to a person:
    a client is a program, and nobody knows what it was told. Programs are looked at in processes of
    their own, each client in its turn, and long replies are made in threads: a large program keeps
    nobody else waiting."""

    def __init__(self, runtime: Runtime, server_policy: ServerPolicy) -> None:
        self._runtime = runtime
        self._control = RuntimeControl(runtime)
        self._server_policy = server_policy
        self._project = Project(server_policy.root)
        self.runs = Runs(runtime, server_policy.budget, server_policy.may.grant)
        known = {name: self._terms(name) for name in sorted(server_policy.models)}
        self._admission_grant = ProgramGrant(
            server_policy.budget,
            server_policy.may,
            {},
            server_policy.models,
            AgentTerms({}, known),
            languages=(),
            repeats=runtime.program.machine.state.bounds.paid_repeats,
        )
        self._permit = PreparedGrant(self._admission_grant)
        runtime.admission_service.warm(wholly=True)

    def control_at(self, at: str) -> "Operations | ControlClient":
        """Return the control of the runtime a client named, by its name or OS pid; without a name
        that of this server. A path is refused, because it could lead to any socket."""
        if not (at or self._server_policy.all_runtimes):
            return self
        if not self._server_policy.all_runtimes:
            raise UserError(
                "this server shows and ends only what it runs itself; leave out `at`. Its owner "
                "can widen that: vega mcp serve --all-runtimes"
            )
        if not _NAME.fullmatch(at) or at.endswith(".sock"):
            raise UserError(f"{at[:80]!a} is no name and no OS pid of a runtime")
        return connect(at or None)

    async def card(self, language: Language = "vega") -> str:
        """Return the language card."""
        return card(language)

    async def check(
        self, *, source: str = "", path: str = "", language: Language = "vega"
    ) -> CheckReply:
        """Return all that is wrong with a program."""
        asked = ProgramRequest(source=source, path=path, language=language)
        inspection = await self._inspect(AdmissionRequest.CHECK, asked)
        return CheckReply(inspection.is_sound, inspection.found, inspection.shown)

    async def cost(
        self, *, source: str = "", path: str = "", language: Language = "vega"
    ) -> CostReply:
        """Return the quote of a program."""
        asked = ProgramRequest(source=source, path=path, language=language)
        inspection = await self._inspect(AdmissionRequest.COST, asked)
        if inspection.quoted is None:
            raise UserError(inspection.shown)
        return await asyncio.to_thread(cost_reply, inspection.quoted, self.runs.left())

    async def explain(
        self, *, source: str = "", path: str = "", language: Language = "vega"
    ) -> ExplainReply:
        """Return what a program may touch, and what waits for what in it."""
        asked = ProgramRequest(source=source, path=path, language=language)
        inspection = await self._inspect(AdmissionRequest.EXPLAIN, asked)
        manifest = inspection.manifest
        if manifest is None:
            raise UserError(inspection.shown)
        return ExplainReply(
            to_builtins(manifest),
            tuple(self._server_policy.outside(manifest)),
            await asyncio.to_thread(lambda: tuple(map(flow_reply, inspection.flows or ()))),
        )

    async def run(
        self,
        *,
        source: str = "",
        path: str = "",
        language: Language = "vega",
        arguments: tuple[Any, ...] = (),
        budget: str = "",
    ) -> RunReply:
        """Run a program to its end, and tell the client meanwhile what it prints."""
        asked = ProgramRequest(source=source, path=path, language=language)
        inspection = await self._inspect(AdmissionRequest.RUN, asked, budget)
        if inspection.verdict is None:
            raise UserError(inspection.shown)
        accepted = self._admitted(inspection.verdict)
        if isinstance(accepted, RefusedProgram):
            raise ProgramRefusedError(accepted.kind, accepted.text)
        module = accepted.module
        program = VegaProgram(module, self._project.root)
        try:
            given = arguments_of(module.functions[module.main], arguments)
        except ContractViolated as error:
            raise UserError(f"{error}; give them in `arguments`, in order") from None
        ran = await self.runs.run(program, given, accepted.cost, current_progress.get())
        left = format_money(self.runs.left())
        return RunReply(ran.id, ran.result, ran.error, ran.printed, format_money(ran.spent), left)

    async def info(self) -> RuntimeView:
        """Return the runtime of this server; `left` is what its runs may still spend."""
        return structs.replace(await self._control.info(), left=self.runs.left())

    async def ps(self) -> list[ProcessView]:
        """Return the runs of this server with all below them, by their ids."""
        views = [(run_id(view.path), view) for view in await self._control.ps()]
        return [structs.replace(view, path=found) for found, view in views if found]

    async def kill(self, id: str, *, tree: bool = False) -> KillResult:  # noqa: A002
        """End a run or a process of one for good, with all below it. Without `tree` too: a run is
        not restarted."""
        del tree
        known = [view.path for view in await self.ps()]
        if id not in known:
            raise UserError(
                f"{id[:80]!a} is no process of this server; running are: "
                f"{', '.join(known[:20]) or 'none'}. Call ps for their ids"
            )
        killed = await self._control.kill(run_path(id), tree=True)
        return structs.replace(killed, ended=tuple(map(run_id, killed.ended)))

    async def interrupts(self) -> list[Question]:
        """Return what the runs ask people."""
        return await self._control.interrupts()

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
        """Return the verdict on a program before its first call: it must keep inside the policy and
        cost no more than is left."""
        if isinstance(verdict, RefusedProgram):
            return verdict
        if wrong := self._server_policy.outside(verdict.manifest):
            return refused(RefusalReason.RIGHTS, "it would touch what is not granted", *wrong)
        return over_remaining_budget(verdict, self.runs.left()) or verdict

    def _terms(self, name: str) -> ModelTerms | None:
        """Return the terms of a model, or None if nobody knows it, and so its price."""
        model_registry, agent = self._runtime.model_registry, Agent("quoted", model=name)
        try:
            models = model_registry.models_of(agent)
        except UserError:
            return None
        return in_order(
            None
            if model.price is None
            else ModelTerms(
                model.price,
                model.context_tokens,
                model.default_max_tokens,
                model.bound_input,
                model_registry.retry_of(agent, model).max_attempts,
                tokenizer=tokenizer_of(model),
            )
            for model in models
        )
