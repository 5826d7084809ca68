# A type may be used above where it is declared.
from pydantic import BaseModel
from vegakit import program, vega


class P(BaseModel):
    n: int


def make() -> P:
    return P(n=1)


@program
def main() -> None:
    print(vega.text(make()))  # expect: {"n":1}
