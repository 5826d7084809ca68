"""What each tool does for a client: look at a program, price it, run it, see and end what runs."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from msgspec import to_builtins

from vegakit.authoring import (
    Accepted,
    Leave,
    Refusal,
    Refused,
    TermsOf,
    judge,
    poor,
    refused,
)
from vegakit.errors import ContractViolated, UserError
from vegakit.lang import Checked, ModelTerms, as_json, card, flows_of, manifest_of, quote
from vegakit.money import dollars, show
from vegakit.runtime import Agent, Runtime, VegaProgram, arguments, rendered_question
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

__all__ = ["Desk", "Told"]


@dataclass(frozen=True)
class Told:
    """`page` says the same to programs. What `is_spelled` is harmless to read as it is, and may not
    be cut."""

    text: str
    page: dict[str, Any] | None = None
    refused: bool = False
    is_spelled: bool = False


class Desk:
    """Work on sources is done in threads: a large one keeps nobody else waiting."""

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

    async def check(self, asked: ProgramRequest) -> Told:
        found = await self._project.look(asked)
        page = {"in_order": found.is_sound, "diagnostics": as_json(found.diagnostics, found.texts)}
        if not found.is_sound:
            return Told(found.shown, page, refused=True)
        return Told("\n".join(filter(None, [found.shown, "in order"])), page)

    async def cost(self, asked: ProgramRequest) -> Told:
        checked = await self._sound(asked)
        if isinstance(checked, Told):
            return checked
        quoted = await asyncio.to_thread(quote, checked, self._leave.terms)
        page = quote_page(quoted) | {"left": show(self.runs.left())}
        return Told(shown(page), page)

    async def explain(self, asked: ProgramRequest) -> Told:
        checked = await self._sound(asked)
        if isinstance(checked, Told):
            return checked
        manifest = await asyncio.to_thread(manifest_of, checked)
        flows = await asyncio.to_thread(flows_of, checked)
        page = {
            "manifest": to_builtins(manifest),
            "not_granted": self._charter.outside(manifest),
            "flows": list(map(flow_page, flows)),
        }
        return Told(shown(page), page)

    async def run(self, asked: RunRequest, tell: Tell | None = None) -> Told:
        checked = await self._sound(asked)
        if isinstance(checked, Told):
            return checked
        accepted = await self._admitted(checked, asked.budget)
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

    async def _sound(self, asked: ProgramRequest) -> Checked | Told:
        found = await self._project.look(asked)
        if found.checked is None or not found.is_sound:
            return Told(found.shown, refused=True)
        return found.checked

    async def _admitted(self, checked: Checked, budget: str) -> Accepted | Refused:
        """Before its first call: inside the charter, and of a price that is left."""
        most = self._leave.max_cost
        leave = replace(self._leave, max_cost=min(dollars(budget), most)) if budget else self._leave
        verdict = await asyncio.to_thread(judge, checked, leave)
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
