# A send inside recursion happens once for each call.
# reply "0": base
# reply "1": one
# reply "2": two
from vegakit import Agent, program

A = Agent("A", model="fast")


def tell(n: int) -> str:
    if n == 0:
        return A("0")
    return tell(n - 1) + " " + A(f"{n}")


@program
def main() -> None:
    print(tell(2))  # expect: base one two


# expect calls: 3
