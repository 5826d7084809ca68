# The earliest in program order wins, even if a later one failed first.
# reply "a": slow
# latency: 3s
from vegakit import Agent, parallel, program, vega

A = Agent("A", model="fast")


def later() -> int:
    vega.process.sleep("1s")
    return 1 // 0


def first() -> str:
    x = A("a")
    return [x][1]


@program
def main() -> None:
    try:
        with parallel():
            x = first()
            y = later()
        print(f"{x} {y}")
    except IndexError:
        print("the first")  # expect: the first
    except ArithmeticError:
        print("the second")
