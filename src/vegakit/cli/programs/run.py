"""`vega run`: a program, its output, and one line of account."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from vegakit.cli.programs.accounts import Account
from vegakit.cli.programs.people import PeopleHere
from vegakit.cli.programs.sources import compiled_at
from vegakit.config import Settings, load
from vegakit.errors import SettingsError, UserError, VegaError, name_of
from vegakit.lang import Module, Problem, arguments_of
from vegakit.models import provider_of
from vegakit.money import dollars
from vegakit.policy import sanitise
from vegakit.ports import Model
from vegakit.program import Overlapped, Printed, Wasted
from vegakit.runtime import (
    Question,
    Runtime,
    VegaProgram,
    bridge_at,
    parts_from,
    python_value,
)
from vegakit.vm import restored, text_of

__all__ = ["run"]

_NO_KEY = "to try it without a key, type: vega run {file} --model scripted:FILE"


def run(words: Sequence[str]) -> int:
    chosen = _parser().parse_args(words)
    made = compiled_at(chosen.file)
    if made is None:
        return 1
    module, root = made
    given = _given(module, chosen)
    return asyncio.run(
        _Run(VegaProgram(module, root, bridge=bridge_at(chosen.file)), given, chosen).go()
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vega run",
        description="Run a program; what follows its file are the arguments of its main.",
    )
    parser.add_argument("file", type=Path, metavar="FILE")
    parser.add_argument("words", nargs="*", metavar="ARGUMENT")
    parser.add_argument("--budget", metavar="'$5'", help="what it may spend at most")
    parser.add_argument("--model", help="for all its agents; scripted:FILE needs no key")
    parser.add_argument(
        "--allow", action="append", metavar="CAPABILITY", help="only these of what it declares"
    )
    parser.add_argument("--journal", type=Path, metavar="FILE", help="survive a crash; vega resume")
    parser.add_argument(
        "--sequential", action="store_true", help="begin no call before the program comes to it"
    )
    parser.add_argument("--quiet", action="store_true", help="no account at the end")
    parser.add_argument("--json", action="store_true", help="output, result and account as JSON")
    return parser


def _given(module: Module, chosen: argparse.Namespace) -> list[Any]:
    main = module.functions[module.main]
    called = main.names or [f"argument {at + 1}" for at in range(len(main.params))]
    names = list(zip(called, main.params, strict=True))
    given = arguments_of(names, chosen.words)
    if isinstance(given, Problem):
        usage = "".join(f" <{name}>" for name, _ in names)
        raise UserError(f"{given}; type: vega run {chosen.file}{usage}")
    return list(given)


class _Only:
    """One model for all agents, whatever they name: a script goes on from one to the other."""

    def __init__(self, find: Callable[[str], Model], model: str) -> None:
        self._find = find
        self._name = model
        self._model: Model | None = None

    def __call__(self, _: str) -> Model:
        if self._model is None:
            self._model = self._find(self._name)
        return self._model


class _Run:
    def __init__(self, program: VegaProgram, given: list[Any], chosen: argparse.Namespace) -> None:
        self._program = program
        self._given = given
        self._chosen = chosen
        self._account = Account()
        self._printed: list[str] = []
        self._began = time.monotonic()

    async def go(self) -> int:
        wallet = None if self._chosen.budget is None else dollars(self._chosen.budget)
        try:
            settings = load({})
            await self._check_keys(settings)
            async with Runtime(**self._parts(settings)) as rt:
                people = PeopleHere(rt)
                rt.on(Printed, self._on_printed)
                rt.on(Wasted, self._account.on_wasted)
                rt.on(Overlapped, self._account.on_overlapped)
                rt.on(Question, people.ask)
                for question in rt.interrupts():  # asked before the run was cut off
                    people.ask(question)
                name = self._program.module.functions[self._program.module.main].name
                result = await rt.program.run(
                    self._program, name, self._given, wallet, self._chosen.allow
                )
        except VegaError as error:
            return self._failed(error)
        self._finished(result)
        return 0

    async def _check_keys(self, settings: Settings) -> None:
        """Before anything runs, rather than at the first call."""
        aliases = {spec.model for spec in self._program.module.agents}
        if self._chosen.model:
            aliases = {self._chosen.model} if aliases else set[str]()
        providers = {provider_of(settings.model(alias)) for alias in aliases}
        for provider in sorted(providers - {"scripted"}):
            await settings.key(provider).read()

    def _parts(self, settings: Settings) -> dict[str, Any]:
        parts, chosen = parts_from(settings), self._chosen
        parts["trace"] = self._account.around(parts["trace"])
        if chosen.model:
            parts["models"] = _Only(parts["models"], chosen.model)
        if chosen.sequential:
            parts["window"] = 0
        if chosen.journal:
            parts["journal"] = chosen.journal
            parts["ledger"] = None
        return parts

    def _on_printed(self, news: Printed) -> None:
        if self._chosen.json:
            self._printed.append(news.text)
        else:
            print(sanitise(news.text), flush=True)

    def _finished(self, result: Any) -> None:  # noqa: ANN401
        if self._chosen.json:
            self._page(result=python_value(result))
            return
        if result is not None:
            print(sanitise(text_of(restored(result))))
        self._tell_account()

    def _failed(self, error: VegaError) -> int:
        name = name_of(error)
        if self._chosen.json:
            self._page(error={"name": name, "reason": str(error)})
            return 1
        print(f"{name}: {sanitise(str(error))}", file=sys.stderr)
        if isinstance(error, SettingsError):
            print(_NO_KEY.format(file=self._chosen.file), file=sys.stderr)
        self._tell_account()
        return 1

    def _tell_account(self) -> None:
        if not self._chosen.quiet:
            print(self._account.line(time.monotonic() - self._began), file=sys.stderr)

    def _page(self, **more: Any) -> None:  # noqa: ANN401
        account = self._account.as_json(time.monotonic() - self._began)
        page = {"output": self._printed, **more, "account": account}
        print(json.dumps(page, indent=2, default=str))
