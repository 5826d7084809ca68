# Any expression stands in braces.
from vegakit import program, vega


@program
def main() -> None:
    name = "Ada"
    n = 3
    print(f"Hello {name}!")  # expect: Hello Ada!
    print(f"{n} + {n} = {n + n}")  # expect: 3 + 3 = 6
    print(f"{vega.text([n, n])} {vega.text(True)} {vega.text(None)}")  # expect: [3,3] true null
