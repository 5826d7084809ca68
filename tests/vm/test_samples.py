"""The samples run, and as one with themselves stored after every instruction."""

import pytest

from tests.vm.samples import SAMPLES
from tests.vm.snapshots import Fails, never, same_in_pieces
from vegakit.lang import Op
from vegakit.lang.codegen.verifier import verify
from vegakit.vm import FiberRequest, SendTo, Status, Watch


def test_the_samples_use_every_instruction() -> None:
    """So a test over them leaves none out."""
    used = {row[0] for module in SAMPLES.values() for f in module.functions for row in f.code}
    assert used == {int(op) for op in Op}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_verified_and_ends(name: str) -> None:
    """In the same way whole and in pieces."""
    assert verify(SAMPLES[name]) == []
    status = same_in_pieces(SAMPLES[name]).step.status
    assert status is (Status.EXITED if name == "processes" else Status.FINISHED)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_whose_answers_are_errors_ends(name: str) -> None:
    """The same again when every question fails, or only the watched process goes."""
    same_in_pieces(SAMPLES[name], host=lambda _: Fails("AgentFailed", "gone"))
    same_in_pieces(SAMPLES[name], host=lambda _: Fails("ProgramChanged", "changed"))

    def watched(request: FiberRequest) -> object:
        return (
            "gone" if isinstance(request, Watch) else never if isinstance(request, SendTo) else "x"
        )

    same_in_pieces(SAMPLES[name], host=watched)
