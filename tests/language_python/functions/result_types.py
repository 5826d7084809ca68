from pydantic import BaseModel
from vegakit import program


class Pair(BaseModel):
    a: int
    b: int


def pair() -> Pair:
    return Pair(a=1, b=2)


def names() -> list[str]:
    return ["x", "y"]


def ages() -> dict[str, int]:
    return {"x": 1}


@program
def main() -> None:
    print(pair().b)  # expect: 2
    print(names()[1])  # expect: y
    print(ages()["x"])  # expect: 1
