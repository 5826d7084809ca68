# A call that was under way when time ran out is charged as reserved.
# reply: slow
# latency: 10s
from vegakit import Agent, Timeout, program

A = Agent("A", model="fast", max_tokens=100)


@program
def main() -> None:
    try:
        print(A.ask("hi", timeout="1s"))
    except Timeout:
        print("late")  # expect: late


# 1 word in and at most 100 out
# expect spent: $0.000501
