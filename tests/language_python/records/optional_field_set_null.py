from pydantic import BaseModel
from vegakit import program, vega


class N(BaseModel):
    note: str | None = None


@program
def main() -> None:
    n = N(note="x")
    n.note = None
    print(vega.text(n))  # expect: {"note":null}
    n.note = "y"
    print(n.note if n.note is not None else "-")  # expect: y
