# A key may be called `$`, which has a meaning inside the machine.
from vegakit import program, vega


@program
def main() -> None:
    m = {"$": "money", "of": "5"}
    print(m["$"])  # expect: money
    print(vega.text(m))  # expect: {"$":"money","of":"5"}
