"""A wallet: what a process may spend in its whole life, restarts included.

    room = cap - spent - held        held: calls in flight, parts of children, sends under way

The program is the only writer of its wallets, so they need no claims and no leases: what a call
could cost is held before it is issued and settled when its outcome arrives. A part is held in the
wallet it was taken from; so a call has to fit its own part only, and the sum still fits above.
"""

from msgspec import Struct

from vegakit.money import Money

__all__ = ["Wallet"]


class Wallet(Struct, omit_defaults=True, gc=False):
    """`cap` None limits nothing and only counts. A `loose` part is not held as a whole: its calls
    are, one by one. Of `spent`, `wasted` is for calls that a program began early and
    did not come to. `raised` is what a person added when the run went on: it may be spent beyond
    the cap, and is not held in the wallet around it, which was raised as well."""

    cap: Money | None = None
    spent: int = 0
    held: int = 0
    loose: bool = False
    wasted: int = 0
    raised: int = 0

    @property
    def room(self) -> Money | None:
        if self.cap is None:
            return None
        return Money(max(0, self.cap + self.raised - self.spent - self.held))

    def fits(self, amount: int) -> bool:
        if self.cap is None:
            return True
        return self.spent + self.held + amount <= self.cap + self.raised

    def settle(self, held: int, charged: int) -> None:
        self.held -= held
        self.spent += charged
