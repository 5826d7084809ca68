from dataclasses import dataclass

from vegakit import program


@dataclass
class Line:
    quantity: int
    price: float


@program
def main(lines: list[Line]) -> float:
    return sum([float(line.quantity) * line.price for line in lines])
