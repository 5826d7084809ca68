"""Only what the gate let through reaches a provider: one admission, one request on the wire.

A second one would be a retry, a redirect or a resend that some library thought of by itself; none
of them was reserved for. The gate is part of every runtime, so this is loaded without what is known
of any provider.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from vegakit.errors import BugError, ErrorClass, Phase, WorldError


class RequestAdmission:
    """Leave to send one request."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        self.used = False


ADMITTED: ContextVar[RequestAdmission | None] = ContextVar("vega_admitted", default=None)


@contextmanager
def admitted() -> Generator[None]:
    """Let one request through within the block."""
    token = ADMITTED.set(RequestAdmission())
    try:
        yield
    finally:
        ADMITTED.reset(token)


def use_admission() -> None:
    """Use the admission of this task for a request that is sent now, or refuse the request."""
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
