# The timeout of an agent holds for every send that has none of its own.
# reply "slow": never
# reply "own": in time
# latency: 3s
from vegakit import Agent, Timeout, program

A = Agent("A", model="m", timeout="2s")


@program
def main() -> None:
    try:
        print(A("slow"))
    except Timeout:
        print("too slow")  # expect: too slow
    print(A.ask("own", timeout="5s"))  # expect: in time


# expect time: 3s
