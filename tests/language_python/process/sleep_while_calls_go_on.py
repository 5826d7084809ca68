# reply: done
# latency: 2s
from vegakit import Agent, program, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    f = A.submit("x")
    vega.process.sleep("10s")
    print(f.result())  # expect: done


# expect time: 10s
