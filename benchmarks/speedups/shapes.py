"""Typed answers, for the ways that want them as models of pydantic."""

from typing import Literal

from pydantic import BaseModel

__all__ = ["Order", "Questions", "Route", "Ruling", "Score", "Solution", "Verdict"]


class Solution(BaseModel):
    answer: int


class Score(BaseModel):
    points: int


class Questions(BaseModel):
    items: list[str]


class Ruling(BaseModel):
    winner: Literal["friend", "sceptic", "builder"]
    why: str


class Verdict(BaseModel):
    same: bool
    why: str


class Order(BaseModel):
    customer: Literal["north", "south", "west"]
    pieces: int
    cents: int


class Route(BaseModel):
    desk: Literal["orders", "money", "nobody"]
