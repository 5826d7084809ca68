# reply "a": {"output": {"result": 1}}
# reply "b": {"output": {"result": 2}}
from vegakit import Agent, program, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    print(vega.text([A.ask(x, returns=int) for x in ["a", "b"]]))  # expect: [1,2]


# expect calls: 2
