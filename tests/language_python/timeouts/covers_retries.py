# The time is for the whole send, its retries included.
# reply: {"error": "overloaded"}
# reply: {"error": "overloaded"}
# reply: late
# latency: 2s
from vegakit import Agent, Timeout, program

A = Agent("A", model="fast")


@program
def main() -> None:
    try:
        print(A.ask("x", timeout="3s"))
    except Timeout:
        print("late")  # expect: late


# expect time: 3s
