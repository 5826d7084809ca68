"""What a run may come to at most falls with each answer, and is never below what it comes to."""

import pytest

from tests.lang.quoting.running import Came, generous_run
from tests.lang.quoting.writing import Writer
from vegakit.money import Money, dollars
from vegakit.program import Wallet
from vegakit.program.wallets import Wallets

SEEDS = range(40)
LOOP = 'for i in range(8) { let x = A <- "Say {i}"; }'


def came_of(seed: int) -> Came:
    return generous_run(Writer(seed, is_fair=bool(seed % 2)).program(), seed)


def test_it_only_falls_and_is_never_below_what_the_run_comes_to() -> None:
    """And in most runs it does fall, before the end."""
    bounded = [came for came in map(came_of, SEEDS) if came.quote.total]
    assert all(came.live_holds for came in bounded)
    assert sum(came.live[-1] < came.live[0] for came in bounded) > len(bounded) / 2


@pytest.mark.parametrize(
    ("around", "falls"), [("{}", 2), ("session budget $1 {{ {} }}", 1), ("spawn", 1)]
)
def test_each_answer_lowers_it_at_once_or_when_the_budget_around_it_is_closed(
    around: str, falls: int
) -> None:
    """Of these eight two are cheaper than they could be."""
    body = around.format(LOOP)
    if around == "spawn":
        body = f"let p = spawn A wallet $1;\n{LOOP.replace('A <-', 'p <-')}"
    agent = 'agent A { model fast  max_tokens 50  system "1 1" }'
    came = generous_run(f"{agent}\nfn main() {{\n{body}\n}}\n", 7)
    assert came.live_holds
    assert not came.error
    assert len(set(came.live)) == 1 + falls, came


def _without_caps(wallet: Wallet) -> int:
    return wallet.spare


def _at_once(
    self: Wallets, path: str, held: int, charged: int, session: str = "", spare: int = 0
) -> None:
    self._core.state.saved += spare  # pyright: ignore[reportPrivateUsage]
    _SETTLE(self, path, held, charged, session)


_SETTLE = Wallets.settle


@pytest.mark.parametrize(
    ("of", "name", "wrong"),
    [(Wallet, "saved", property(_without_caps)), (Wallets, "settle", _at_once)],
)
def test_a_fall_that_forgets_a_cap_is_found(
    of: type, name: str, wrong: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of, name, wrong)
    assert any(not came.live_holds for came in map(came_of, SEEDS) if came.quote.total)


def test_under_a_cap_the_same_answers_could_not_have_cost_more_than_fits() -> None:
    wallet = Wallet(dollars("$10"))
    for cost in (1, 1, 1):
        wallet.held += 4
        wallet.settle(4, cost)
        wallet.save(4, cost, spare=3)
    assert Wallet(None, wallet.spent, spare=wallet.spare).saved == 9
    assert wallet.saved == 9
    assert Wallet(Money(8), wallet.spent, spare=9).saved == 5
    # One that failed unbilled was held at 4, too, and had to fit beside the others.
    assert Wallet(Money(8), wallet.spent, spare=9, slack=4).saved == 1
