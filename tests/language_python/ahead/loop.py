# The rounds of a loop over a known list overlap, also through a function.
# reply "look at a": A
# reply "look at b": B
# reply "look at c": C
# latency: 1s
from vegakit import Agent, program, vega

Reader = Agent("Reader", model="fast")


def look(name: str) -> str:
    return Reader(f"look at {name}")


@program
def main() -> None:
    found = []
    for name in ["a", "b", "c"]:
        found.append(look(name))
    print(vega.text(found))  # expect: ["A","B","C"]


# expect time: 1s
# expect calls: 3
