"""Only what the gate let through reaches a provider: one admission, one request on the wire.

A second one would be a retry, a redirect or a resend that some library thought of by itself; none
of them was reserved for. The gate is part of every runtime, so this is loaded without what is known
of any provider.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

from vegakit.conversation import Usage
from vegakit.errors import BugError, ErrorClass, Phase, WorldError


class RequestAdmission:
    """Leave to send one request. It is also how a model tells the gate, whatever the call ends by,
    that it need not be paid for: `unsent` is set by a model that says when it begins to write, and
    holds until the first byte of the request. A model that says nothing may have sent it.
    `request_id` is how the provider calls the request, for whoever asks it about one; `usage` is
    what it said that it bills, should the call fail though it was answered."""

    __slots__ = ("request_id", "unsent", "usage", "used")

    def __init__(self) -> None:
        self.used = False
        self.unsent = False
        self.request_id = ""
        self.usage: Usage | None = None

    def on_write(self) -> None:
        """Note that the request is being written: from now on it may be billed."""
        self.unsent = False


ADMITTED: ContextVar[RequestAdmission | None] = ContextVar("vega_admitted", default=None)


@contextmanager
def admitted() -> Generator[RequestAdmission]:
    """Let one request through within the block."""
    admission = RequestAdmission()
    token = ADMITTED.set(admission)
    try:
        yield admission
    finally:
        ADMITTED.reset(token)


def use_admission() -> RequestAdmission:
    """Use the admission of this task for a request, or refuse the request. Whoever uses it tells it
    when the request is written."""
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
    admission.used = admission.unsent = True
    return admission
