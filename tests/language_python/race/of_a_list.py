# As many as a list has, in a function of its own, each round with its own calls.
# reply "1": one
# reply "1": one
# reply "2": two
# reply "2": two
# reply "2": two
# reply "3": three
# latency: 1s
from vegakit import Agent, program, race, vega

Counter = Agent("Counter", model="fast")


def first_long(numbers: list[int]) -> str:
    return race(*[Counter(f"{n}") for n in numbers if n != 3], good=lambda name: name != "one")


@program
def main() -> None:
    found: list[str] = []
    for number in [1, 2]:
        found = found + [first_long([3, 1, number + 1, 2])]
    print(vega.text(found))  # expect: ["two","two"]
    # expect calls: 5
