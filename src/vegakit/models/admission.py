"""Only what the gate let through reaches a provider: one admission, one request on the wire.

A second one would be a retry, a redirect or a resend that some library thought of by itself; none
of them was reserved for.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from vegakit.errors import BugError, ErrorClass, Phase, WorldError

__all__ = ["ADMITTED", "Admission", "admitted", "use_admission"]


class Admission:
    """Leave to send one request."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        self.used = False


ADMITTED: ContextVar[Admission | None] = ContextVar("vega_admitted", default=None)


@contextmanager
def admitted() -> Generator[None]:
    token = ADMITTED.set(Admission())
    try:
        yield
    finally:
        ADMITTED.reset(token)


def use_admission() -> None:
    admission = ADMITTED.get()
    if admission is None:
        raise BugError("a request went around the gate; models are called by the gate only")
    if admission.used:
        raise WorldError(
            "the provider's answer asked for a second request (a redirect, or the same question "
            "without what it refused), which was not sent; check the provider's base_url",
            ErrorClass.REJECTED,
            phase=Phase.ANSWERED,
        )
    admission.used = True
