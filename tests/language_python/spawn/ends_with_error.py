# A call that raises ends what it spawned, too.
# budget: $3.00
from vegakit import Agent, Failed, program, spawn, vega

A = Agent("A", model="fast")


def f() -> None:
    _a = spawn(A, wallet="$2.00")
    raise Failed("no")


@program
def main() -> None:
    for i in range(2):
        try:
            f()
        except Failed:
            print(vega.text(vega.budget.remaining()))


# expect: $3.00
# expect: $3.00
