"""The table that pure functions enter themselves in, and the one way to call them.

Parameters are declared by letters: `s` str, `i` int, `f` float (an int becomes one), `l` list,
`m` map, `d` duration, `*` anything; a question mark after one: it may be null.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from vegakit.vm.faults import bad
from vegakit.vm.values import Duration, Fields, Items, Value, kind_of

__all__ = ["PURE", "Pure", "call_pure", "pure"]

_KINDS: dict[str, type] = {
    "s": str,
    "i": int,
    "f": float,
    "l": Items,
    "m": Fields,
    "d": Duration,
}

Entered: TypeAlias = Callable[..., Any]


class Pure(NamedTuple):
    params: tuple[str, ...]
    do: Entered


PURE: dict[str, Pure] = {}


def pure(name: str, params: str) -> Callable[[Entered], Entered]:
    def enter(do: Entered) -> Entered:
        PURE[name] = Pure(tuple(params.split()), do)
        return do

    return enter


def call_pure(name: str, args: Sequence[Value]) -> Value:
    known = PURE.get(name)
    if known is None:
        raise bad(f"there is no pure function {name:.80}")
    if len(args) != len(known.params):
        raise bad(f"{name} takes {len(known.params)} arguments, not {len(args)}")
    return known.do(*map(_checked, args, known.params))


def _checked(arg: Value, param: str) -> Value:
    kind = _KINDS.get(param[0])
    if kind is None or type(arg) is kind or (arg is None and param[1:] == "?"):
        return arg
    if kind is float and type(arg) is int:
        return float(arg)
    raise bad(f"a library function got {kind_of(arg)} for {kind.__name__.lower()}")
