"""A program quoted, then run at its worst."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.lang.quoting.spite import Spite
from vegakit.errors import VegaError
from vegakit.lang import Checked, check, compile_program
from vegakit.lang.quoting import ModelTerms, Quote, quote
from vegakit.money import dollars
from vegakit.runtime import Runtime, VegaProgram
from vegakit.testing.simulation.loop import VirtualClock, run_virtual


@dataclass
class Came:
    quote: Quote
    spent: int
    calls: int
    error: str

    @property
    def holds(self) -> bool:
        total, calls = self.quote.total, self.quote.calls
        return (total is None or self.spent <= total) and (calls is None or self.calls <= calls)


def checked_of(text: str) -> Checked:
    checked, found = check(text, "main.vega", lambda _: None)
    errors = [one for one in found if one.severity == "error"]
    assert not errors, f"{errors[:2]}\n{text}"
    assert checked is not None
    return checked


def quoted(checked: Checked, spite: Spite) -> Quote:
    model = spite.model
    assert model.price is not None
    terms = ModelTerms(
        model.price, model.context_tokens, model.default_max_tokens, model.bound_input
    )
    return quote(checked, lambda _: terms)


def at_its_worst(text: str, seed: int = 0) -> Came:
    checked, spite = checked_of(text), Spite(seed)
    came = Came(quoted(checked, spite), 0, 0, "")
    with tempfile.TemporaryDirectory(prefix="vega-quote-") as folder:
        run_virtual(_run(came, checked, spite, Path(folder)))
    return came


async def _run(came: Came, checked: Checked, spite: Spite, root: Path) -> None:
    module = compile_program(checked)
    clock = VirtualClock()
    async with Runtime("$1000", models=lambda _: spite.model, clock=clock) as rt:
        given = [["u", "v", "w"]] if module.functions[module.main].params else []
        try:
            await rt.program.run(VegaProgram(module, root), "main", given, dollars("$100"), None)
        except VegaError as error:
            came.error = f"{type(error).__name__}: {error}"
        came.spent, came.calls = rt.spent, len(spite.model.requests)
