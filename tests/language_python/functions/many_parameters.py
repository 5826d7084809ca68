from vegakit import program, vega


def row(a: int, b: str, c: list[int], d: dict[str, int], e: vega.Money | None) -> str:
    return f"{a} {b} {vega.text(c)} {vega.text(d)} {vega.text(e)}"


@program
def main() -> None:
    print(row(1, "x", [2], {"k": 3}, None))  # expect: 1 x [2] {"k":3} null
    print(row(1, "x", [], {}, vega.money("$2.00")))  # expect: 1 x [] {} $2.00
