"""Hostile `.vgb` files: refused, or run to a clean end within their fuel. Never a Python exception.

`VEGA_MUTANTS` says how many; they are the same every time.
"""

import os
import random
from collections import Counter
from typing import Any

import msgspec
import pytest

from tests.vm.mutating import flipped, mutated, sealed
from tests.vm.samples import SAMPLES
from tests.vm.snapshots import Fails, Streams, never, run
from vegakit.errors import ContractViolated, UserError
from vegakit.lang import Module, from_vgb
from vegakit.vm import Status, Step
from vegakit.vm.state import VmLimits

MUTANTS = int(os.environ.get("VEGA_MUTANTS", "500"))
LIMITS = VmLimits(total_fuel=3_000)
ANSWERS: tuple[Any, ...] = (
    *("x", "a path", 5, 2**70, 1.5, float("nan"), True, None, [], ["a"], {}, {"a": [1]}, b"x"),
    *({"$": "money", "of": 5}, {"$": "process", "of": "/a"}, {"$": 1}, {1: 2}, "\ud800", {"$": []}),
    *(Fails("AgentFailed"), Fails("Nonsense"), Streams(("a", "b")), Streams((), "Timeout"), never),
)


def test_a_changed_byte_is_refused() -> None:
    """Wherever it stands: the digest covers the module, the head checks itself."""
    draw = random.Random(1)
    for _ in range(MUTANTS):
        with pytest.raises(UserError, match="vega build"):
            from_vgb(flipped(draw))


def test_a_mutated_module_does_no_harm() -> None:
    """Some are refused, some run; what runs ends in one of the ways a program ends."""
    ended = Counter(_outcome(seed) for seed in range(MUTANTS))
    assert ended["refused"] > MUTANTS // 5
    assert ended["crashed"] > MUTANTS // 20
    assert ended["finished"] > MUTANTS // 50


@pytest.mark.parametrize("name", SAMPLES)
def test_no_number_may_be_a_list(name: str) -> None:
    """Each word of every function's last instruction, where a list stands for it: it is refused,
    with the reason."""
    form = msgspec.json.decode(msgspec.json.encode(SAMPLES[name]))
    for function in form["functions"]:
        last = function["code"][-1]
        for at, word in enumerate(last):
            for other in ([], {}, [[]]):
                last[at] = other
                with pytest.raises(UserError, match="vega build"):
                    from_vgb(sealed(form))
            last[at] = word


def _outcome(seed: int) -> str:
    draw = random.Random(seed)
    try:
        module = from_vgb(mutated(draw))
    except UserError:
        return "refused"
    step = _run(module, draw, stored=seed % 4 == 0)
    if step.status is Status.CRASHED:
        assert step.error is not None
        assert step.error.error
    return str(step.status)


def _run(module: Module, draw: random.Random, *, stored: bool) -> Any:
    function = module.functions[module.main]
    args = [None] * len(function.params)
    try:
        return run(
            module,
            args,
            lambda _: draw.choice(ANSWERS),
            fuel=draw.choice([1, 7, 1_000]),
            limits=LIMITS,
            stored=stored,
            rounds=5_000,
        ).step
    except ContractViolated:  # null does not fit the parameters
        return Step(Status.WAITING)


BOMBS: list[bytes] = [
    b"",
    b"VEGA",
    sealed(b"[" * 100_000 + b"]" * 100_000),
    sealed(b'{"name":' * 50_000),
    sealed(b"null"),
    sealed(b"\xff\xfe"),
]


@pytest.mark.parametrize("bomb", BOMBS, ids=range(len(BOMBS)))
def test_what_is_no_module_is_refused(bomb: bytes) -> None:
    """Nested without end, cut short, of another kind."""
    with pytest.raises(UserError, match="vega build"):
        from_vgb(bomb)
