from pydantic import BaseModel
from vegakit import program, vega


class P(BaseModel):
    name: str
    n: int


@program
def main() -> None:
    ps = [P(name="a", n=2), P(name="b", n=3)]
    print(vega.list.sum([p.n for p in ps]))  # expect: 5
    for i, p in enumerate(ps):
        print(f"{i} {p.name}")


# expect: 0 a
# expect: 1 b
