"""Relations between types: what fits where, and type variables that are solved later (pure)."""

from vegakit.lang.diagnostics import count_steps
from vegakit.lang.types import (
    ANY,
    NOTHING,
    NULL,
    STR,
    ChoiceOf,
    FutureOf,
    ListOf,
    MapOf,
    OptionalOf,
    Plain,
    ProcessOf,
    RecordOf,
    StreamOf,
    Type,
)

UNKNOWN = Plain("!")

_SHOWN = 12


class TypeVariables:
    def __init__(self) -> None:
        self._filled: dict[str, Type] = {}
        self._only: dict[str, tuple[Type, ...]] = {}
        self._count = 0

    def fresh(self, only: tuple[Type, ...] = ()) -> Type:
        self._count += 1
        name = f"?{self._count}"
        if only:
            self._only[name] = only
        return Plain(name)

    def seen(self, kind: Type) -> Type:
        """The type itself, where it is a hole that is filled: what fills it."""
        while isinstance(kind, Plain) and kind.name in self._filled:
            kind = self._filled[kind.name]
        return kind

    def full(self, kind: Type, otherwise: Type | None = None) -> Type:
        """With all holes filled; `otherwise` takes the place of those still open."""
        count_steps()
        kind = self.seen(kind)
        match kind:
            case Plain():
                return otherwise if otherwise is not None and self.is_open(kind) else kind
            case OptionalOf(inner=inner):
                full = self.full(inner, otherwise)
                return full if isinstance(full, OptionalOf) or full == ANY else OptionalOf(full)
            case ListOf(inner=inner, most=most):
                return ListOf(self.full(inner, otherwise), most)
            case MapOf(inner=inner):
                return MapOf(self.full(inner, otherwise))
            case FutureOf(inner=inner):
                return FutureOf(self.full(inner, otherwise))
            case _:
                return kind

    def described(self, kind: Type) -> Type:
        """For people: with words in place of holes."""
        found = self.full(kind)
        inner = found
        while isinstance(inner, OptionalOf | ListOf | MapOf | FutureOf):
            inner = self.seen(inner.inner)
        if not (isinstance(inner, Plain) and self.is_open(inner)):
            return found
        names = [type_label(one) for one in self._only.get(inner.name, (ANY,))]
        return self.full(found, Plain(" | ".join(names)))

    def is_open(self, kind: Type) -> bool:
        return isinstance(kind, Plain) and kind.name[0] == "?" and kind.name not in self._filled

    def fits(self, this: Type, there: Type) -> bool:  # noqa: C901, PLR0912
        count_steps()
        if this is there:
            return True
        this, there = self.seen(this), self.seen(there)
        if this in (UNKNOWN, there) or there == UNKNOWN:
            self._spoil(this, there)
            return True
        if there == ANY:
            return this != NOTHING
        if self.is_open(there):
            return self._fill(there, this)
        if self.is_open(this):
            return self._fill(this, there)
        match this, there:
            case OptionalOf(inner=one), OptionalOf(inner=other):
                return self.fits(one, other)
            case _, OptionalOf(inner=other):
                return this == NULL or self.fits(this, other)
            case ListOf(inner=one, most=most), ListOf(inner=other, most=bound):
                return (bound is None or (most is not None and most <= bound)) and self.fits(
                    one, other
                )
            case (MapOf(inner=one), MapOf(inner=other)) | (
                FutureOf(inner=one),
                FutureOf(inner=other),
            ):
                return self.fits(one, other)
            case ChoiceOf(choices=choices), ChoiceOf(choices=others):
                return set(choices) <= set(others)
            case ChoiceOf(), Plain():
                return there == STR
            case ProcessOf(), ProcessOf(agent=agent):
                return not agent
            case _:
                return False

    def joined(self, one: Type, other: Type) -> Type | None:
        """The type that both fit, None when there is none."""
        if self.fits(other, one):
            return one
        if self.fits(one, other):
            return other
        one, other = self.seen(one), self.seen(other)
        if NULL in (one, other):
            return OptionalOf(one if other == NULL else other)
        if isinstance(one, OptionalOf) or isinstance(other, OptionalOf):
            inner = self.joined(without_null(one), without_null(other))
            return None if inner is None else OptionalOf(inner)
        match one, other:
            case ListOf(inner=inner), ListOf(inner=inner2):
                item = self.joined(inner, inner2)
                return None if item is None else ListOf(item)
            case ChoiceOf(), ChoiceOf():
                return STR
            case ProcessOf(), ProcessOf():
                return ProcessOf()
            case _:
                return None

    def _spoil(self, this: Type, there: Type) -> None:
        """What meets a fault is not asked about again."""
        for one, other in ((this, there), (there, this)):
            if other == UNKNOWN and isinstance(one, Plain) and self.is_open(one):
                self._filled[one.name] = UNKNOWN

    def _fill(self, hole: Type, kind: Type) -> bool:
        assert isinstance(hole, Plain)
        if kind == NOTHING or self._holds(kind, hole):
            return False
        only = self._only.get(hole.name)
        if only:
            if self.is_open(kind):
                assert isinstance(kind, Plain)
                self._only.setdefault(kind.name, only)
            elif (STR if isinstance(kind, ChoiceOf) else kind) not in only:
                return False
        if kind == NULL:
            kind = OptionalOf(self.fresh())
        self._filled[hole.name] = kind
        return True

    def _holds(self, kind: Type, hole: Type) -> bool:
        kind = self.seen(kind)
        while isinstance(kind, OptionalOf | ListOf | MapOf | FutureOf):
            count_steps()
            kind = self.seen(kind.inner)
            if kind == hole:
                return True
        return False


def without_null(kind: Type) -> Type:
    return kind.inner if isinstance(kind, OptionalOf) else kind


def is_json(kind: Type) -> bool:
    """Whether values of it can be written down: handed to `main`, asked of a model, sent."""
    match kind:
        case OptionalOf(inner=inner) | ListOf(inner=inner) | MapOf(inner=inner):
            return is_json(inner)
        case RecordOf(fields=fields):
            return all(is_json(field) for _, field in fields)
        case ProcessOf() | FutureOf() | StreamOf():
            return False
        case _:
            return kind != NOTHING


def type_label(kind: Type) -> str:
    """As it is written in a program, or described where it cannot be written."""
    match kind:
        case Plain(name=name):
            return "?" if name[0] in "?!" else name
        case OptionalOf(inner=inner):
            return (
                f"({type_label(inner)})?"
                if isinstance(inner, ChoiceOf)
                else f"{type_label(inner)}?"
            )
        case ListOf(inner=inner, most=most):
            return f"[{type_label(inner)}]" if most is None else f"[{type_label(inner)}; {most}]"
        case MapOf(inner=inner):
            return f"{{str: {type_label(inner)}}}"
        case ChoiceOf(choices=choices):
            more = " | …" if len(choices) > _SHOWN else ""
            return " | ".join(f'"{choice}"' for choice in choices[:_SHOWN]) + more
        case RecordOf(name=name):
            return name
        case ProcessOf(agent=agent):
            return f"a handle of {agent}" if agent else "a process handle"
        case FutureOf(inner=inner):
            return f"a future of {type_label(inner)}"
        case StreamOf():
            return "a stream"
