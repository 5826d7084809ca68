# reply: {"output": {"result": "many"}}
# reply: {"output": {"result": "lots"}}
# reply: {"output": {"result": "several"}}
# reply: {"output": {"result": "plenty"}}
# reply: {"output": {"result": "heaps"}}
from vegakit import Agent, ContractViolated, program

A = Agent("A", model="fast")


@program
def main() -> None:
    try:
        n = A.ask("How many?", returns=int)
        print(n)
    except ContractViolated:
        print("no number")  # expect: no number
