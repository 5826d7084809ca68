# Only null is replaced; false, 0 and "" are values.
from vegakit import program, vega


@program
def main() -> None:
    a: bool | None = False
    b: int | None = 0
    c: str | None = ""
    print(vega.text(a if a is not None else True))  # expect: false
    print(b if b is not None else 5)  # expect: 0
    print(f"[{c if c is not None else 'x'}]")  # expect: []
