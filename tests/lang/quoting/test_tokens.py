"""Quotes by the tokenizer of the models: what is known counts by its tokens wherever it stands, and
answers by the tokens they were written as.

Where the real tokenizer is installed, its counts are held against the bounds.
"""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, strategies as st

from tests.lang.quoting.running import checked_of
from vegakit.conversation import ModelRequest, Text, Tokenizer, UserMessage
from vegakit.lang import AgentSpec, ModelTerms, quote
from vegakit.lang.analysis.cost_sends import size_of_answer
from vegakit.lang.analysis.cost_values import tokens_anywhere
from vegakit.money import Money
from vegakit.prices import PriceRow, PriceTier
from vegakit.providers.known.openai import PROVIDER
from vegakit.providers.token_bounds import input_counting

ONE = Money(1_000_000)
PRICE = PriceRow("any", (PriceTier(ONE, Money(0), ONE, ONE),))
HEAD = """
agent A { model "one" max_tokens 100 max_steps 1 retry { max_attempts 1 } }
agent B { model "two" max_tokens 100 max_steps 1 retry { max_attempts 1 } }
"""
WORDS = "one two three four five six seven eight"
ANSWER = 125 + 16
FOURTH = Tokenizer("fourth", lambda text: -(-len(text.encode()) // 4))
REAL = input_counting(PROVIDER, "gpt-5").tokenizer


def _terms(of: Callable[[str], Tokenizer | None]) -> Callable[[AgentSpec], ModelTerms]:
    def terms(spec: AgentSpec) -> ModelTerms:
        tokenizer = of(spec.model)

        def count(request: ModelRequest) -> int:
            parts = [p for m in request.messages if isinstance(m, UserMessage) for p in m.parts]
            said = [part.text for part in parts if isinstance(part, Text)]
            counted = (lambda text: len(text.encode())) if tokenizer is None else tokenizer.count
            return sum(map(counted, said))

        return ModelTerms(PRICE, 1_000_000, 4096, count, attempts=1, tokenizer=tokenizer)

    return terms


def _tokens(body: str, of: Callable[[str], Tokenizer | None] = lambda _: FOURTH) -> int | None:
    """The tokens that the last send may have."""
    return quote(checked_of(HEAD + body), _terms(of)).lines[-1].worst


@pytest.mark.parametrize(
    ("body", "most"),
    [
        ('let a = A <- "x";\nB <- a;', ANSWER),
        ('let a = A <- "x";\nB <- "12345 {a}";', ANSWER + 6),
        ('let a = A <- "x";\nB <- str::trim(a);', ANSWER + 16),
        ('let a = A <- "x";\nB <- str::slice(a, 0, 20);', 80),
        ('let a = A <- "x";\nB <- str::slice(a, 0, 500);', ANSWER + 16),
        ('let a = A <- "x";\nB <- str::join(str::lines(a), "");', ANSWER + 16),
        ('let a = A <- "x";\nB <- str::join(str::words(a), "");', 600),
        ('let a = A <- "x";\nB <- str::replace(a, " ", "");', 600),
        ('let a = A <- "x";\nB <- str::repeat(a, 3);', 3 * ANSWER),
        ('let xs = [for i in range(3) { A <- "x" }];\nB <- str::join(xs, " ");', 3 * (ANSWER + 1)),
        ('let t = "";\nfor i in range(4) { t = t + (A <- "x"); }\nB <- t;', 4 * ANSWER),
        (f'B <- "{WORDS}";', len("one") + 8 + len(" eight")),
    ],
)
def test_tokens_flow_through_values(body: str, most: int) -> None:
    """A text that was changed counts by its bytes, six for each token of an answer."""
    assert _tokens(body) == most


@pytest.mark.parametrize("other", [None, Tokenizer("other", FOURTH.count)])
def test_models_that_count_differently_count_as_bytes(other: Tokenizer | None) -> None:
    """The tokens that one wrote are others to the next."""
    told = {"one": FOURTH, "two": other}
    assert _tokens('let a = A <- "x";\nB <- "12345 {a}";', told.__getitem__) in (606, 608)


# By the real one, where it is installed.

needs_tokenizer = pytest.mark.skipif(REAL is None, reason="vegakit[tokenizers] is not installed")
_ODD = [
    *"'sSdDlLvVeErRmMtT \t\n\r/.,-_{}[]()\"0129aAzZéÉßİ中の한😀",
    *"\u0131\u0301\u200d\u00a0\u2028\u3000\x00\x1c\x85²٣",
    *("'ll", "'RE", "\r\n", "   ", "\n\n", " /", "/\n", "word ", " word", "the", "<|endoftext|>"),
]
_LETTERS = "etaoinshrdlu"
_PIECES = [
    a + b + c for a in ("", *_LETTERS) for b in _LETTERS for c in ("", *_LETTERS, " ", "\n", " a")
]
_TEXTS = st.one_of(
    st.text(max_size=40),
    st.lists(st.sampled_from(_ODD), max_size=40).map("".join),
    st.lists(st.sampled_from(_PIECES), max_size=3).map("".join),
)


@needs_tokenizer
@given(st.lists(_TEXTS, max_size=6), st.lists(st.booleans(), min_size=6, max_size=6))
def test_parts_are_bounded_wherever_they_stand(parts: list[str], is_known: list[bool]) -> None:
    """Those that are not known count as bytes."""
    assert REAL is not None
    bound = sum(
        tokens_anywhere(part, REAL) if known else len(part.encode())
        for part, known in zip(parts, is_known, strict=False)
    )
    assert REAL.count("".join(parts)) <= bound


@needs_tokenizer
def test_two_texts_in_one_may_have_more_tokens_than_each_for_itself() -> None:
    """So their counts alone would be no bound; with what stands at their edges as bytes they
    are."""
    assert REAL is not None
    more = 0
    for one in _PIECES[::7]:
        for other in _PIECES[::11]:
            first, last = f"we read {one}", f"{other} and so on"
            tokens = REAL.count(first + last)
            more += tokens > REAL.count(first) + REAL.count(last)
            assert tokens <= tokens_anywhere(first, REAL) + tokens_anywhere(last, REAL)
    assert more > 10


@needs_tokenizer
def test_no_text_has_more_tokens_than_bytes_and_half_a_pair_counts() -> None:
    assert REAL is not None
    assert REAL.count("hello world") == 2
    assert REAL.count("\ud800a") == 4
    assert REAL.count("x " * 300_000) == 600_000


@needs_tokenizer
def test_what_was_written_in_so_many_tokens_is_read_as_few_more() -> None:
    """Even pieces of words by chance, which no model writes."""
    assert REAL is not None
    chance = Random(1)
    pieces = [piece for piece in _PIECES if REAL.count(piece) == 1]
    for count in (1, 10, 100, 1_000):
        most = size_of_answer(count, REAL).tokens or 6 * count
        for _ in range(50):
            assert REAL.count("".join(chance.choice(pieces) for _ in range(count))) <= most
