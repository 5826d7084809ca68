# A program starts at most fifty processes side by side.
from vegakit import Agent, LimitReached, program, spawn, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    n = 0
    try:
        all_ = [spawn(A)]
        while vega.limit(100, True):
            n += 1
            all_.append(spawn(A))
    except LimitReached as reason:
        print(vega.text(vega.str.contains(str(reason), "width")))  # expect: true
    print(n)  # expect: 50
