from dataclasses import dataclass
from vegakit import program


@dataclass(frozen=True)
class Point:
    x: int


@program
def main() -> int:
    return Point(1).x
