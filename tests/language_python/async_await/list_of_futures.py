# reply "1": one
# reply "2": two
# reply "3": three
# latency: 2s
from vegakit import Agent, program, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    all_ = [A.submit(f"{n}") for n in range(1, 4)]
    print(vega.text([f.result() for f in all_]))  # expect: ["one","two","three"]


# expect time: 2s
