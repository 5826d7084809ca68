"""What each tool does for a client: look at a program, price it, run it, see and end what runs."""

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from msgspec import to_builtins

from vegakit.authoring import (
    Accepted,
    Leave,
    Looked,
    Refusal,
    Refused,
    TermsOf,
    Wish,
    poor,
    refused,
)
from vegakit.errors import ContractViolated, UserError
from vegakit.lang import ModelTerms, card
from vegakit.money import dollars, show
from vegakit.runtime import Agent, Permit, Runtime, VegaProgram, arguments, rendered_question
from vegakit.serving.charter import Charter
from vegakit.serving.elsewhere import Elsewhere
from vegakit.serving.pages import flow_page, question_row, quote_page, shown, view_row
from vegakit.serving.progress import Tell
from vegakit.serving.projects import Project
from vegakit.serving.requests import (
    CardRequest,
    InterruptsRequest,
    KillRequest,
    ProgramRequest,
    PsRequest,
    RunRequest,
)
from vegakit.serving.runs import Runs, short

__all__ = ["Desk", "Told", "current_client"]

current_client: ContextVar[str] = ContextVar("vega_client", default="")
"""Whose request it is: clients take turns."""


@dataclass(frozen=True)
class Told:
    """`page` says the same to programs. What `is_spelled` is harmless to read as it is, and may not
    be cut."""

    text: str
    page: dict[str, Any] | None = None
    refused: bool = False
    is_spelled: bool = False


class Desk:
    """Programs are looked at in processes of their own, each client in its turn, and long pages
    are written in threads: a large program keeps nobody else waiting."""

    def __init__(self, runtime: Runtime, charter: Charter) -> None:
        self._runtime = runtime
        self._charter = charter
        self._project = Project(charter.root)
        self._elsewhere = Elsewhere(charter)
        self.runs = Runs(runtime, charter.budget, charter.may.grant)
        known = {name: self._terms(name) for name in sorted(charter.models)}
        self._leave = Leave(
            charter.budget, charter.may, {}, charter.models, TermsOf({}, known), languages=()
        )
        self._permit = Permit(self._leave)
        runtime.judges.warm(wholly=True)

    async def check(self, asked: ProgramRequest) -> Told:
        looked = await self._look(Wish.CHECK, asked)
        page = {"in_order": looked.is_sound, "diagnostics": list(looked.found)}
        if not looked.is_sound:
            return Told(looked.shown, page, refused=True)
        return Told("\n".join(filter(None, [looked.shown, "in order"])), page)

    async def cost(self, asked: ProgramRequest) -> Told:
        looked = await self._look(Wish.COST, asked)
        if looked.quoted is None:
            return Told(looked.shown, refused=True)
        page = await asyncio.to_thread(quote_page, looked.quoted)
        page["left"] = show(self.runs.left())
        return Told(await asyncio.to_thread(shown, page), page)

    async def explain(self, asked: ProgramRequest) -> Told:
        looked = await self._look(Wish.EXPLAIN, asked)
        manifest = looked.manifest
        if manifest is None:
            return Told(looked.shown, refused=True)
        page = {
            "manifest": to_builtins(manifest),
            "not_granted": self._charter.outside(manifest),
            "flows": await asyncio.to_thread(lambda: list(map(flow_page, looked.flows or ()))),
        }
        return Told(await asyncio.to_thread(shown, page), page)

    async def run(self, asked: RunRequest, tell: Tell | None = None) -> Told:
        looked = await self._look(Wish.RUN, asked, asked.budget)
        if looked.verdict is None:
            return Told(looked.shown, refused=True)
        accepted = self._admitted(looked.verdict)
        if isinstance(accepted, Refused):
            return Told(accepted.text, {"refused": accepted.kind}, refused=True)
        module = accepted.module
        program = VegaProgram(module, self._project.root)
        try:
            given = arguments(module.functions[module.main], asked.arguments)
        except ContractViolated as error:
            raise UserError(f"{error}; give them in `arguments`, in order") from None
        ran = await self.runs.run(program, given, accepted.cost, tell)
        page = to_builtins(ran) | {"spent": show(ran.spent), "left": show(self.runs.left())}
        return Told(shown(page), page, refused=bool(ran.error))

    async def ps(self, asked: PsRequest) -> Told:
        if asked.at or self._charter.all_runtimes:
            page = await self._elsewhere.ps(asked.at)
        else:
            now = self._runtime.clock.now()
            rows = [view_row(view, short(view.path), now) for view in self.runs.views()]
            page = {"processes": rows, "left": show(self.runs.left())}
        return Told(shown(page), page)

    async def interrupts(self, _: InterruptsRequest) -> Told:
        """Never answered from here: a client is a program, and nobody knows what it was told."""
        now, questions = self._runtime.clock.now(), self._runtime.interrupts()
        page = {"questions": [question_row(one, now) for one in questions]}
        shown = await asyncio.to_thread(lambda: list(map(rendered_question, questions)))
        text = "\n\n".join(map("\n".join, shown))
        return Told(text or "nothing is asked", page, is_spelled=True)

    async def kill(self, asked: KillRequest) -> Told:
        if asked.at or self._charter.all_runtimes:
            page = await self._elsewhere.kill(asked.at, asked.id)
        else:
            page = {"ended": await self.runs.kill(asked.id)}
        return Told(shown(page), page)

    async def card(self, asked: CardRequest) -> Told:
        return Told(card(asked.language))

    async def _look(self, wish: Wish, asked: ProgramRequest, budget: str = "") -> Looked:
        name, text = await self._project.taken(asked)
        permit, most = self._permit, self._leave.max_cost
        if budget and dollars(budget) < most:
            permit = Permit(replace(self._leave, max_cost=dollars(budget)))
        judges, read = self._runtime.judges, self._project.text
        return await judges.look(wish, text, name, permit, current_client.get(), read)

    def _admitted(self, verdict: Accepted | Refused) -> Accepted | Refused:
        """Before its first call: inside the charter, and of a price that is left."""
        if isinstance(verdict, Refused):
            return verdict
        if wrong := self._charter.outside(verdict.manifest):
            return refused(Refusal.RIGHTS, "it would touch what is not granted", *wrong)
        return poor(verdict, self.runs.left()) or verdict

    def _terms(self, name: str) -> ModelTerms | None:
        """None of a model that nobody knows: its price is not known either."""
        catalogue, agent = self._runtime.catalogue, Agent("quoted", model=name)
        try:
            model = catalogue.model_of(agent)
        except UserError:
            return None
        if model.price is None:
            return None
        return ModelTerms(
            model.price,
            model.context_tokens,
            model.default_max_tokens,
            model.bound_input,
            catalogue.retry_of(agent).max_attempts,
        )
