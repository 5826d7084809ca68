"""Terms of the solver: exact numbers and texts of a node, as Z3 sees them (host).

Numbers are mathematical integers, decimals in units of their last place. Each carries bounds that
hold wherever it is used, so that most overflows are excluded without the solver. What is not linear
gets a variable of its own, with linear *facts* about it, and its exact *definition* apart: many
clauses follow from the facts alone, and then the solver never sees a product.

| of                     | facts                                            | definition          |
|------------------------|--------------------------------------------------|---------------------|
| `p = a * b`            | the four planes through the corners of a and b   | `p == a * b`        |
| `q, r` of `a / b`      | `a == p + r`, `p = q * b`, `r` smaller than `b`, |                     |
|                        | with the sign of `a`                             |                     |
| `n` of `a / b` rounded | `2 (a - p)` from `-b` to `b`, `p = n * b`        | n is even at a tie  |

All of them exist and are unique for all `a` and `b`: nothing is assumed by naming them. Between
facts and definitions stand *lemmas*: what is true of many variables together and would take the
solver an induction, such as that every item is in a group.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from vegakit.errors import SettingsError, UserError

Term: TypeAlias = Any
"""A term of Z3, or a Python int or bool where the value is known."""
_CODE_STEP = 1_000_000
_MOST_CASES = 8
_LEMMA_EFFORT = 100_000
_LAST_CHARACTER = 0x2FFFF
"""The last character that texts of the solver have."""


class Depth(IntEnum):
    """A question tells this much of the variables in it."""

    FACTS = 0
    LEMMAS = 1
    DEFINITIONS = 2


class NotExpressible(UserError):  # noqa: N818  (a reason that a verdict shows)
    """Something cannot be told to the solver; the text names it."""


def load_solver() -> Term:
    """Return the module of Z3, or raise what to install."""
    try:
        return import_module("z3")
    except ImportError:
        raise SettingsError(
            "proofs need z3-solver, which is not installed: pip install 'vegakit[prove]'"
        ) from None


class Number(NamedTuple):
    """An integer of the solver, with bounds that it keeps."""

    term: Term
    low: int
    high: int


def known(value: int) -> Number:
    """Return a number that is written out."""
    return Number(value, value, value)


class Terms:
    """Makes terms in a context of their own, so that a proof does not depend on those before it,
    and keeps what is known of the variables among them."""

    def __init__(self) -> None:
        self.z3 = load_solver()
        self.context = self.z3.Context()
        self.facts: dict[str, list[Term]] = {
            "": []
        }  # by variable; those of "" are of no single one
        self.lemmas: dict[str, list[Term]] = {}
        self.definitions: dict[str, list[Term]] = {}
        self._made: dict[tuple[Any, ...], Any] = {}
        self._names: dict[int, tuple[Term, frozenset[str]]] = {}
        self._fresh = 0

    # Logic. Known values stay Python's, so that terms are no larger than they have to be.

    def all_of(self, parts: Iterable[Term]) -> Term:
        """Return the conjunction."""
        kept = [part for part in parts if part is not True]
        if any(part is False for part in kept):
            return False
        return self.z3.And(*kept) if len(kept) > 1 else kept[0] if kept else True

    def any_of(self, parts: Iterable[Term]) -> Term:
        """Return the disjunction."""
        kept = [part for part in parts if part is not False]
        if any(part is True for part in kept):
            return True
        return self.z3.Or(*kept) if len(kept) > 1 else kept[0] if kept else False

    def no(self, part: Term) -> Term:
        """Return the opposite."""
        return not part if isinstance(part, bool) else self.z3.Not(part)

    def implied(self, test: Term, part: Term) -> Term:
        """Return that something holds wherever the test does."""
        return self.any_of((self.no(test), part))

    def either(self, test: Term, then: Term, otherwise: Term) -> Term:
        """Return one of two terms."""
        if isinstance(test, bool):
            return then if test else otherwise
        if then is otherwise or (self.is_known(then, otherwise) and then == otherwise):
            return then
        return self.z3.If(test, then, otherwise)

    def is_known(self, *terms: Term) -> bool:
        """Return whether terms are values of Python."""
        return all(isinstance(term, int) for term in terms)

    def same(self, left: Term, right: Term) -> Term:
        """Return whether two terms are equal."""
        if self.is_known(left, right) or left is right:
            return left is right or left == right
        return left == right

    def is_part(self, part: Term, whole: Term) -> bool:
        """Return whether a condition is one of those of a conjunction."""
        waiting: list[Term] = [whole]
        for each in waiting:  # which grows
            if self.is_known(each):
                continue
            if not self.is_known(part) and each.eq(part):
                return True
            waiting.extend(each.children() if self.z3.is_and(each) else ())
        return part is True

    def alternatives(self, whole: Term) -> list[Term]:
        """Return the parts of which one holds if the whole does."""
        if isinstance(whole, bool):
            return [whole]
        if self.z3.is_or(whole):
            return [part for each in whole.children() for part in self.alternatives(each)]
        if self.z3.is_not(whole) and self.z3.is_and(inner := whole.children()[0]):
            return [part for each in inner.children() for part in self.alternatives(self.no(each))]
        return [whole]

    # Variables, and what is known of them.

    def variable(self, name: str, low: int, high: int) -> Number:
        """Return a new number within bounds."""
        if low == high:
            return known(low)
        term = self.z3.Int(name, self.context)
        self.facts[name] = [low <= term, term <= high]
        return Number(term, low, high)

    def boolean(self, name: str) -> Term:
        """Return a new condition."""
        return self.z3.Bool(name, self.context)

    def new_name(self, what: str) -> str:
        """Return a name that no input has."""
        self._fresh += 1
        return f"{what}!{self._fresh}"

    def fresh(self, what: str, low: int, high: int) -> Number:
        """Return a new number of a name that no input has."""
        return self.variable(self.new_name(what), low, high)

    def know(self, of: Number, *facts: Term) -> None:
        """Add facts about a variable. They are left out of a question that does not mention it."""
        kept = [fact for fact in facts if fact is not True]
        if not self.is_known(of.term):
            self.facts[of.term.decl().name()].extend(kept)

    def add_lemmas(self, of: Term, *lemmas: Term) -> None:
        """Add what follows from the definitions of a variable and of others."""
        if not self.is_known(of):
            self.lemmas.setdefault(of.decl().name(), []).extend(lemmas)

    def define(self, of: Number, definition: Term) -> None:
        """Say exactly which value a variable has."""
        if not self.is_known(of.term):
            self.definitions.setdefault(of.term.decl().name(), []).append(definition)

    def named(self, what: str, value: Number) -> Number:
        """Return a variable for a number, so that terms that use it stay small."""
        if self.is_known(value.term):
            return value
        made = self.fresh(what, value.low, value.high)
        self.know(made, made.term == value.term)
        return made

    def named_condition(self, what: str, condition: Term) -> Term:
        """Return a variable for a condition, so that terms that use it stay small."""
        if isinstance(condition, bool):
            return condition
        name = self.new_name(what)
        made = self.boolean(name)
        self.definitions[name] = [made == condition]
        return made

    def with_known(self, asked: list[Term], depth: Depth) -> list[Term]:
        """Return what is asked with all that is known of the variables in it. What is known of
        others holds in any case, since each of them exists for all inputs."""
        told = (self.facts, self.lemmas, self.definitions)[: depth + 1]
        chosen, met = [*asked], set[str]()
        for part in chosen:  # which grows
            new = self._variables(part) - met
            met |= new
            # In their order, so that a question is the same every time.
            chosen += [fact for name in sorted(new) for kind in told for fact in kind.get(name, ())]
        return chosen

    def _variables(self, whole: Term) -> frozenset[str]:
        """Return the names of the variables in a term. It is kept with them: most are told again in
        the next question, and walking through terms takes longer than many answers."""
        if isinstance(whole, bool):
            return frozenset()
        if whole.get_id() not in self._names:
            found, seen, waiting = set[str](), set[int](), [whole]
            while waiting:
                part = waiting.pop()
                if part.get_id() not in seen:
                    seen.add(part.get_id())
                    inner = part.children()
                    waiting += inner
                    found |= set() if inner else {part.decl().name()}
            self._names[whole.get_id()] = whole, frozenset(found)
        return self._names[whole.get_id()][1]

    def is_always(self, claim: Term) -> bool:
        """Return whether the solver sees at once that a claim holds for all values."""
        if isinstance(claim, bool):
            return claim
        solver = self.z3.Solver(ctx=self.context)
        solver.set("rlimit", _LEMMA_EFFORT)
        solver.add(*self.with_known([self.no(claim)], Depth.FACTS))
        return solver.check() == self.z3.unsat

    def key(self, *parts: Term) -> tuple[Any, ...]:
        """Return what tells terms from others, as long as they are kept."""
        return tuple(part if isinstance(part, int | str) else ("", part.get_id()) for part in parts)

    # Arithmetic.

    def plus(self, left: Number, right: Number) -> Number:
        """Return the sum."""
        return Number(left.term + right.term, left.low + right.low, left.high + right.high)

    def minus(self, left: Number, right: Number) -> Number:
        """Return the difference."""
        if left.term is right.term:
            return known(0)
        return Number(left.term - right.term, left.low - right.high, left.high - right.low)

    def times(self, left: Number, factor: int) -> Number:
        """Return a multiple."""
        ends = sorted((left.low * factor, left.high * factor))
        return left if factor == 1 else Number(left.term * factor, *ends)

    def chosen(self, test: Term, then: Number, otherwise: Number) -> Number:
        """Return one of two numbers."""
        term = self.either(test, then.term, otherwise.term)
        if isinstance(test, bool):
            return then if test else otherwise
        return Number(term, min(then.low, otherwise.low), max(then.high, otherwise.high))

    def absolute(self, part: Number) -> Number:
        """Return the number without its sign."""
        if part.low >= 0:
            return part
        if part.high <= 0:
            return self.times(part, -1)
        term = self.either(part.term >= 0, part.term, -part.term)
        return Number(term, 0, max(-part.low, part.high))

    def least(self, left: Number, right: Number) -> Number:
        """Return the smaller one."""
        term = self.either(left.term <= right.term, left.term, right.term)
        return Number(term, min(left.low, right.low), min(left.high, right.high))

    def greatest(self, left: Number, right: Number) -> Number:
        """Return the larger one."""
        term = self.either(left.term >= right.term, left.term, right.term)
        return Number(term, max(left.low, right.low), max(left.high, right.high))

    def product(self, left: Number, right: Number) -> Number:
        """Return the product."""
        for one, other in ((left, right), (right, left)):
            if isinstance(one.term, int):
                return self.times(other, one.term)
        corners = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
        for one, other in ((left, right), (right, left)):
            if cases := self._cases(one.term):
                return Number(self._distributed(cases, other.term), min(corners), max(corners))
        key = ("product", *sorted(self.key(left.term, right.term)))
        if key not in self._made:
            made = self.fresh("product", min(corners), max(corners))
            self.know(made, *_planes(made.term, left, right))
            self.define(made, made.term == left.term * right.term)
            self._made[key] = made, left, right
        return self._made[key][0]

    def _cases(self, term: Term) -> list[tuple[Term, int]]:
        """Return conditions and values of a choice among constants, which keeps a product linear;
        nothing of other terms. The last condition is what is left."""
        found = list[tuple[Term, int]]()
        while self.z3.is_app_of(term, self.z3.Z3_OP_ITE) and len(found) < _MOST_CASES:
            test, then, term = term.children()
            if not self.z3.is_int_value(then):
                return []
            found.append((test, then.as_long()))
        if not found or not self.z3.is_int_value(term):
            return []
        return [*found, (True, term.as_long())]

    def _distributed(self, cases: list[tuple[Term, int]], other: Term) -> Term:
        made: Term = other * cases[-1][1]
        for test, value in reversed(cases[:-1]):
            made = self.z3.If(test, other * value, made)
        return made

    def divided(self, left: Number, right: Number) -> tuple[Number, Number]:
        """Return the quotient without its fraction, and the rest, which has the sign of the left
        side. Where the right side is 0 they are anything."""
        key = ("divided", *self.key(left.term, right.term))
        if key not in self._made:
            self._made[key] = (*self._new_division(left, right), left, right)
        return self._made[key][:2]

    def _new_division(self, left: Number, right: Number) -> tuple[Number, Number]:
        most = max(abs(right.low), abs(right.high), 1) - 1
        quotient = self.fresh("quotient", *_quotients(left, right))
        rest = self.fresh("rest", max(-most, min(left.low, 0)), min(most, max(left.high, 0)))
        whole = self.product(quotient, right)
        divides = self._is_not_zero(right)
        size = self.absolute(right).term
        facts = (
            self.implied(divides, self.same(left.term, whole.term + rest.term)),
            self.implied(divides, self.all_of((-size < rest.term, rest.term < size))),
            self.implied(left.term >= 0, rest.term >= 0),
            self.implied(left.term <= 0, rest.term <= 0),
        )
        # Of both: either may be a known number, and then says nothing.
        self.know(quotient, *facts)
        self.know(rest, *facts)
        return quotient, rest

    def _is_not_zero(self, part: Number) -> Term:
        return part.term != 0 if part.low <= 0 <= part.high else True

    def rounded(self, left: Number, right: Number) -> Number:
        """Return the quotient rounded to the nearest integer, a tie to the even one. Where the
        right side is 0 it is anything."""
        if right.low == right.high == 1:
            return left
        key = ("rounded", *self.key(left.term, right.term))
        if key not in self._made:
            self._made[key] = self._new_rounding(left, right), left, right
        return self._made[key][0]

    def _new_rounding(self, left: Number, right: Number) -> Number:
        low, high = _quotients(left, right)
        made = self.fresh("rounded", low - 1, high + 1)
        gap = 2 * (left.term - self.product(made, right).term)
        size = self.absolute(right).term
        divides = self._is_not_zero(right)
        self.know(made, self.implied(divides, self.all_of((-size <= gap, gap <= size))))
        half = self.fresh("half", made.low // 2 - 1, made.high // 2 + 1)
        tie = self.all_of((divides, self.any_of((gap == size, gap == -size))))
        self.define(made, self.implied(tie, made.term == 2 * half.term))
        return made

    def scaled(self, part: Number, has: int, wanted: int) -> Number:
        """Return a number of some places at others, rounded where they are fewer."""
        if wanted >= has:
            return self.times(part, 10 ** (wanted - has))
        return self.rounded(part, known(10 ** (has - wanted)))

    def within(self, part: Number, low: int, high: int) -> Term:
        """Return whether a number is within bounds."""
        parts = (part.low >= low or part.term >= low, part.high <= high or part.term <= high)
        return self.all_of(parts)

    def compared(self, operator: str, left: Number, right: Number) -> Term:
        """Return whether a comparison of numbers holds."""
        match operator:
            case "==" | "!=":
                apart = left.high < right.low or right.high < left.low
                found = False if apart else self.same(left.term, right.term)
                return found if operator == "==" else self.no(found)
            case "<" | ">=":
                found = left.high < right.low or (left.low < right.high and left.term < right.term)
                return found if operator == "<" else self.no(found)
            case _:
                return self.compared("<" if operator == ">" else ">=", right, left)


def _planes(product: Term, left: Number, right: Number) -> Iterator[Term]:
    """Yield the linear bounds of a product by the corners of its sides."""
    a, b = left.term, right.term
    yield product >= left.low * b + right.low * a - left.low * right.low
    yield product >= left.high * b + right.high * a - left.high * right.high
    yield product <= left.high * b + right.low * a - left.high * right.low
    yield product <= left.low * b + right.high * a - left.low * right.high


def _quotients(left: Number, right: Number) -> tuple[int, int]:
    """Return bounds of a quotient, whichever way it is rounded towards zero."""
    most = max(abs(left.low), abs(left.high))
    if right.low <= 0 <= right.high:
        return -most, most
    pairs = [(a, b) for a in (left.low, left.high) for b in (right.low, right.high)]
    found = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs]
    return min(found), max(found)


class Texts:
    """Texts of a node. Where texts are only compared they are numbers in the same order: constants
    far apart, so that any others fit between them. Where one is sought in another they are texts of
    the solver, which are slower."""

    def __init__(self, terms: Terms, constants: Iterable[str], *, has_parts: bool = False) -> None:
        self._terms, self._has_parts = terms, has_parts
        ordered = sorted({"", *constants})
        self._codes = {text: place * _CODE_STEP for place, text in enumerate(ordered)}
        self._highest = len(ordered) * _CODE_STEP
        self._lengths: Any = None

    def constant(self, text: str) -> Term:
        """Return a text that is written out."""
        if not self._has_parts:
            return self._codes[text]
        if any(ord(letter) > _LAST_CHARACTER for letter in text):
            raise NotExpressible(f"the text {text[:40]!a} has a character that the solver lacks")
        return self._terms.z3.StringVal(text, self._terms.context)

    def variable(self, name: str, most: int) -> Term:
        """Return a new text of at most so many characters."""
        terms = self._terms
        if not self._has_parts:
            made = terms.variable(name, 0, self._highest)
            if self._lengths is not None:
                terms.know(made, *self._length_facts(made.term, most))
            return made.term
        term = terms.z3.String(name, terms.context)
        terms.facts[name] = [terms.z3.Length(term) <= most]
        return term

    def anything(self, most: int) -> Term:
        """Return a new text of which nothing is known but its length at most."""
        return self.variable(self._terms.new_name("text"), most)

    def measure(self) -> None:
        """Give every text a length; called before there are variables, if any length is asked."""
        z3, context = self._terms.z3, self._terms.context
        whole = z3.IntSort(context)
        self._lengths = z3.Function("length!", whole, whole)

    def _length_facts(self, term: Term, most: int) -> Iterator[Term]:
        length = self._lengths(term)
        yield self._terms.all_of((length >= 0, length <= most))
        yield (length == 0) == (term == 0)
        for text, code in self._codes.items():
            yield self._terms.implied(term == code, length == len(text))

    def length(self, term: Term, most: int) -> Number:
        """Return how many characters a text has."""
        if self._has_parts:
            return Number(self._terms.z3.Length(term), 0, most)
        if isinstance(term, int):
            return known(next(len(text) for text, code in self._codes.items() if code == term))
        return Number(self._lengths(term), 0, most)

    def contains(self, whole: Term, part: Term) -> Term:
        """Return whether a text is a part of another."""
        return self._terms.z3.Contains(whole, part)

    def less(self, left: Term, right: Term) -> Term:
        """Return whether a text stands before another."""
        return left < right

    def one_of(self, term: Term, texts: Iterable[str]) -> Term:
        """Return whether a text is one of some constants."""
        return self._terms.any_of(term == self.constant(text) for text in texts)

    def read(self, model: Term, terms: Mapping[str, tuple[Term, int]]) -> dict[str, str]:
        """Return the texts that variables have in a model, by name; each is given with the most
        characters that it may have."""
        found = {name: model.eval(term, True) for name, (term, _) in terms.items()}
        if self._has_parts:
            return {name: _unescaped(value.as_string()) for name, value in found.items()}
        codes = {name: value.as_long() for name, value in found.items()}
        spelled: dict[str, str] = {}
        for name, (term, most) in terms.items():
            length = min(most, 2)
            if self._lengths is not None:
                length = model.eval(self._lengths(term), True).as_long()
            spelled[name] = self._spelled(codes[name], length, sorted({*codes.values()}))
        return spelled

    def _spelled(self, code: int, length: int, used: list[int]) -> str:
        """Return a text for a number: behind the constant below it, in the order of the others
        there. It may miss its neighbours or its length; who uses it has to try it."""
        floor = code // _CODE_STEP
        base = next(text for text, at in self._codes.items() if at == floor * _CODE_STEP)
        if code == floor * _CODE_STEP:
            return base
        rank = sum(floor * _CODE_STEP < each < code for each in used)
        letters = ""
        for _ in range(max(1, length - len(base))):
            letters, rank = chr(ord("a") + rank % 26) + letters, rank // 26
        return base + letters


def _unescaped(text: str) -> str:
    r"""Return a text of the solver, which writes other characters as `\u{e9}`."""
    parts = text.split("\\u{")
    rest = (part.partition("}") for part in parts[1:])
    return parts[0] + "".join(chr(int(code, 16)) + more for code, _, more in rest)
