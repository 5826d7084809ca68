"""LLVM assembly that all native nodes share: routines of decimals, and what runs rows (pure).

A decimal is an i128 in units of its last place, below 10**38. Each routine returns the result and
whether it has more digits than that. Exact products and quotients have up to 253 bits and are made
in 256; where the numbers are small, as most are, 64 bits do. No routine divides in 128 bits: LLVM
would call the library of a C compiler for it.
"""

from collections.abc import Iterator
from typing import TypeAlias

from vegakit.contracts.node_types import (
    DECIMAL_DIGITS,
    BooleanType,
    DecimalType,
    EnumType,
    IntegerType,
    TimestampType,
)

ScalarLeaf: TypeAlias = IntegerType | DecimalType | BooleanType | TimestampType | EnumType
Routine: TypeAlias = tuple[str, dict[str, str]]
"""The name of a routine, and its text with the texts of those that it calls, by their names."""


def register_of(kind: object) -> str:
    """Return the type of the register that holds a scalar."""
    if isinstance(kind, BooleanType):
        return "i1"
    return "i128" if isinstance(kind, DecimalType) else "i64"


_LIMIT = 10**DECIMAL_DIGITS

_DIVIDE = """\
define internal i256 @divide(i256 %n, i256 %d) noinline {
  %q = udiv i256 %n, %d
  ret i256 %q
}"""
_HALF_EVEN = """\
define internal i256 @half_even(i256 %n, i256 %d) noinline {
entry:
  %n_low = icmp slt i256 %n, 0
  %d_low = icmp slt i256 %d, 0
  %n_opposite = sub i256 0, %n
  %d_opposite = sub i256 0, %d
  %a = select i1 %n_low, i256 %n_opposite, i256 %n
  %b = select i1 %d_low, i256 %d_opposite, i256 %d
  %sign = xor i1 %n_low, %d_low
  %both = or i256 %a, %b
  %is_small = icmp ult i256 %both, 18446744073709551616
  br i1 %is_small, label %small, label %large
small:
  %a64 = trunc i256 %a to i64
  %b64 = trunc i256 %b to i64
  %q64 = udiv i64 %a64, %b64
  %small_q = zext i64 %q64 to i256
  br label %round
large:
  %is_digit = icmp ult i256 %b, 4294967296
  %is_128 = icmp ult i256 %a, 340282366920938463463374607431768211456
  %is_middle = and i1 %is_digit, %is_128
  br i1 %is_middle, label %middle, label %wide
middle:
  %a128 = trunc i256 %a to i128
  %b32 = trunc i256 %b to i64
  %q128 = call i128 @digits(i128 %a128, i64 %b32)
  %middle_q = zext i128 %q128 to i256
  br label %round
wide:
  %wide_q = call i256 @divide(i256 %a, i256 %b)
  br label %round
round:
  %q = phi i256 [%small_q, %small], [%middle_q, %middle], [%wide_q, %wide]
  %product = mul i256 %q, %b
  %rest = sub i256 %a, %product
  %twice = shl i256 %rest, 1
  %above = icmp ugt i256 %twice, %b
  %tie = icmp eq i256 %twice, %b
  %odd = trunc i256 %q to i1
  %up_tie = and i1 %tie, %odd
  %up = or i1 %above, %up_tie
  %one = zext i1 %up to i256
  %rounded = add i256 %q, %one
  %opposite = sub i256 0, %rounded
  %signed = select i1 %sign, i256 %opposite, i256 %rounded
  ret i256 %signed
}"""


def _digits() -> str:
    """Return the division of 128 bits by up to 32, a digit of base 2**32 after another."""
    lines = ["define internal i128 @digits(i128 %n, i64 %d) alwaysinline {"]
    rest, total = "0", "0"
    for at in (96, 64, 32, 0):
        lines += [
            f"  %s{at} = lshr i128 %n, {at}",
            f"  %t{at} = trunc i128 %s{at} to i64",
            f"  %g{at} = and i64 %t{at}, 4294967295",
            f"  %u{at} = shl i64 {rest}, 32",
            f"  %w{at} = or i64 %u{at}, %g{at}",
            f"  %q{at} = udiv i64 %w{at}, %d",
            f"  %r{at} = urem i64 %w{at}, %d",
            f"  %z{at} = zext i64 %q{at} to i128",
            f"  %m{at} = shl i128 %z{at}, {at}",
            f"  %a{at} = or i128 {total}, %m{at}",
        ]
        rest, total = f"%r{at}", f"%a{at}"
    return "\n".join([*lines, f"  ret i128 {total}", "}"])


_SHARED = {"divide": _DIVIDE, "digits": _digits(), "half_even": _HALF_EVEN}


def rounded_routine(places: int) -> Routine:
    """Return the routine that takes places off a number of 128 bits, half to even."""
    unit, stages = 10**places, list[int]()
    left = places
    while left:
        stages.append(min(left, 9))
        left -= stages[-1]
    middle, at = list[str](), "%a"
    for n, digits in enumerate(stages):
        middle.append(f"  %q{n} = call i128 @digits(i128 {at}, i64 {10**digits})")
        at = f"%q{n}"
    small = ["  br label %middle"]
    if unit < 2**64:
        small = [
            "  %is_small = icmp ult i128 %a, 18446744073709551616",
            "  br i1 %is_small, label %small, label %middle",
            "small:",
            "  %a64 = trunc i128 %a to i64",
            f"  %q64 = udiv i64 %a64, {unit}",
            "  %small_q = zext i64 %q64 to i128",
            "  br label %round",
        ]
    ways = f"[%small_q, %small], [{at}, %middle]" if unit < 2**64 else f"[{at}, %middle]"
    lines = [
        f"define internal i128 @rounded_{places}(i128 %n) noinline {{",
        "entry:",
        "  %low = icmp slt i128 %n, 0",
        "  %n_opposite = sub i128 0, %n",
        "  %a = select i1 %low, i128 %n_opposite, i128 %n",
        *small,
        "middle:",
        *middle,
        "  br label %round",
        "round:",
        f"  %q = phi i128 {ways}",
        f"  %product = mul i128 %q, {unit}",
        "  %rest = sub i128 %a, %product",
        "  %twice = shl i128 %rest, 1",
        f"  %above = icmp ugt i128 %twice, {unit}",
        f"  %tie = icmp eq i128 %twice, {unit}",
        "  %odd = trunc i128 %q to i1",
        "  %up_tie = and i1 %tie, %odd",
        "  %up = or i1 %above, %up_tie",
        "  %one = zext i1 %up to i128",
        "  %rounded = add i128 %q, %one",
        "  %opposite = sub i128 0, %rounded",
        "  %signed = select i1 %low, i128 %opposite, i128 %rounded",
        "  ret i128 %signed",
        "}",
    ]
    return f"rounded_{places}", {"digits": _SHARED["digits"], f"rounded_{places}": "\n".join(lines)}


_FIT = """\
  %moved = add i256 %{value}, {least}
  %over = icmp uge i256 %moved, {range}
  %short = trunc i256 %{value} to i128
  %pair = insertvalue {{i128, i1}} poison, i128 %short, 0
  %both = insertvalue {{i128, i1}} %pair, i1 %over, 1
  ret {{i128, i1}} %both
}}"""


def _fit(value: str, limit: int = _LIMIT) -> str:
    return _FIT.format(value=value, least=limit - 1, range=2 * limit - 1)


def product_routine(down: int) -> Routine:
    """Return the routine that multiplies two decimals and takes places off, or adds some."""
    if down < 0:
        # With more places than 38 digits have it does not fit, however many they are.
        name, limit = f"product_up_{-down}", 10 ** (DECIMAL_DIGITS + down)
        text = f"""\
define internal {{i128, i1}} @{name}(i128 %l, i128 %r) noinline {{
  %a = sext i128 %l to i256
  %b = sext i128 %r to i256
  %exact = mul i256 %a, %b
  %more = mul i256 %exact, {10**-down}
  %moved = add i256 %exact, {limit - 1}
  %over = icmp uge i256 %moved, {2 * limit - 1}
  %short = trunc i256 %more to i128
  %pair = insertvalue {{i128, i1}} poison, i128 %short, 0
  %both = insertvalue {{i128, i1}} %pair, i1 %over, 1
  ret {{i128, i1}} %both
}}"""
        return name, {name: text}
    name = f"product_{down}"
    rounded, texts = rounded_routine(down)
    text = f"""\
define internal {{i128, i1}} @{name}(i128 %l, i128 %r) noinline {{
entry:
  %l64 = trunc i128 %l to i64
  %r64 = trunc i128 %r to i64
  %l_back = sext i64 %l64 to i128
  %r_back = sext i64 %r64 to i128
  %l_small = icmp eq i128 %l, %l_back
  %r_small = icmp eq i128 %r, %r_back
  %is_small = and i1 %l_small, %r_small
  br i1 %is_small, label %small, label %wide
small:
  %exact = mul nsw i128 %l, %r
  %small_found = call i128 @{rounded}(i128 %exact)
  %small_wide = sext i128 %small_found to i256
  br label %done
wide:
  %a = sext i128 %l to i256
  %b = sext i128 %r to i256
  %wide_exact = mul nsw i256 %a, %b
  %wide_found = call i256 @half_even(i256 %wide_exact, i256 {10**down})
  br label %done
done:
  %found = phi i256 [%small_wide, %small], [%wide_found, %wide]
{_fit("found")}"""
    return name, {**_SHARED, **texts, name: text}


def quotient_routine(up: int) -> Routine:
    """Return the routine that divides two decimals, one of them by a power of ten first."""
    name = f"quotient_{'up' if up >= 0 else 'down'}_{abs(up)}"
    text = f"""\
define internal {{i128, i1}} @{name}(i128 %l, i128 %r) noinline {{
  %l_wide = sext i128 %l to i256
  %r_wide = sext i128 %r to i256
  %a = mul nsw i256 %l_wide, {10 ** max(up, 0)}
  %b = mul nsw i256 %r_wide, {10 ** max(-up, 0)}
  %found = call i256 @half_even(i256 %a, i256 %b)
{_fit("found")}"""
    return name, {**_SHARED, name: text}


# Rows.


def _stored(kind: ScalarLeaf) -> str:
    return "i128" if isinstance(kind, DecimalType) else "i64"


def _loaded(n: int, kind: ScalarLeaf) -> Iterator[str]:
    """Yield how the n-th input is read from where `%in_row` points to."""
    if isinstance(kind, BooleanType):
        yield f"  %word{n} = load i64, ptr %in_row{n}, align 8"
        yield f"  %value{n} = trunc i64 %word{n} to i1"
    else:
        yield f"  %value{n} = load {_stored(kind)}, ptr %in_row{n}, align 8"


def _given(inputs: list[ScalarLeaf], outputs: list[ScalarLeaf]) -> str:
    values = [f"{register_of(kind)} %value{n}" for n, kind in enumerate(inputs)]
    return ", ".join([*values, *(f"ptr %out_row{n}" for n in range(len(outputs)))])


def batch_function(inputs: list[ScalarLeaf], outputs: list[ScalarLeaf]) -> Iterator[str]:
    """Yield the function that runs all rows of some columns."""
    sides = (("in", inputs), ("out", outputs))
    yield "define void @batch(i64 %rows, ptr %inputs, ptr %outputs, ptr %statuses) {"
    yield "entry:"
    for name, columns in sides:
        for n in range(len(columns)):
            yield f"  %{name}_at{n} = getelementptr ptr, ptr %{name}puts, i64 {n}"
            yield f"  %{name}_column{n} = load ptr, ptr %{name}_at{n}, align 8"
    yield "  %some = icmp sgt i64 %rows, 0"
    yield "  br i1 %some, label %row, label %done"
    yield "row:"
    yield "  %n = phi i64 [0, %entry], [%next, %row]"
    for name, columns in sides:
        for n, kind in enumerate(columns):
            column = f"ptr %{name}_column{n}"
            yield f"  %{name}_row{n} = getelementptr {_stored(kind)}, {column}, i64 %n"
    for n, kind in enumerate(inputs):
        yield from _loaded(n, kind)
    yield f"  %status = call i32 @node({_given(inputs, outputs)})"
    yield "  %status_row = getelementptr i32, ptr %statuses, i64 %n"
    yield "  store i32 %status, ptr %status_row, align 4"
    yield "  %next = add nuw i64 %n, 1"
    yield "  %more = icmp slt i64 %next, %rows"
    yield "  br i1 %more, label %row, label %done"
    yield "done:"
    yield "  ret void"
    yield "}"


def row_function(inputs: list[ScalarLeaf], outputs: list[ScalarLeaf]) -> Iterator[str]:
    """Yield the function that runs one row, whose values lie side by side."""
    yield "define i32 @row(ptr %inputs, ptr %outputs) {"
    for name, columns in (("in", inputs), ("out", outputs)):
        at = 0
        for n, kind in enumerate(columns):
            yield f"  %{name}_row{n} = getelementptr i8, ptr %{name}puts, i64 {at}"
            at += 16 if isinstance(kind, DecimalType) else 8
    for n, kind in enumerate(inputs):
        yield from _loaded(n, kind)
    yield f"  %status = call i32 @node({_given(inputs, outputs)})"
    yield "  ret i32 %status"
    yield "}"
