# reply: slow
# latency: 10s
from vegakit import Agent, Timeout, program, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    patience = vega.duration("1s")
    try:
        print(A.ask("hi", timeout=patience * 4))
    except Timeout:
        print("late")  # expect: late


# expect time: 4s
