# reply "keep": {"output": {"result": true}}
# reply "drop": {"output": {"result": false}}
# reply "keep": {"output": {"result": true}}
from vegakit import Agent, program, vega

A = Agent("A", model="fast")


def wanted(x: str) -> bool:
    return A.ask(x, returns=bool)


@program
def main() -> None:
    print(
        vega.text([x for x in ["keep 1", "drop", "keep 2"] if wanted(x)])
    )  # expect: ["keep 1","keep 2"]
