# reply "0": a
# reply "1": b
# latency: 1s
from vegakit import Agent, parallel, program, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    all_: list[str] = []
    for i in range(2):
        with parallel():
            x = A(f"{i}")
            y = A(f"{i}")
        all_.append(x + y)
    print(vega.text(all_))  # expect: ["ac","bd"]


# reply "0": c
# reply "1": d
# expect time: 2s
