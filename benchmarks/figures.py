"""A measured figure beside its limit, and tables of them."""

from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["Figure", "at_least", "at_most", "show"]


class Figure(NamedTuple):
    name: str
    value: str
    limit: str = ""
    holds: bool = True


def at_most(limit: float, value: float, unit: str, name: str) -> Figure:
    return Figure(name, f"{value:.1f} {unit}", f"≤ {limit:g} {unit}", value <= limit)


def at_least(limit: float, value: float, unit: str, name: str) -> Figure:
    return Figure(name, f"{value:,.0f} {unit}", f"≥ {limit:,.0f} {unit}", value >= limit)


def show(figures: Sequence[Figure]) -> str:
    width = max(len(figure.name) for figure in figures)
    return "\n".join(
        f"{figure.name:<{width}}  {figure.value:>14}  {figure.limit:>20}"
        f"  {'ok' if figure.holds else 'SHORT'}"
        for figure in figures
    )
