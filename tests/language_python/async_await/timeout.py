# reply: slow
# latency: 9s
from vegakit import Agent, Timeout, program

A = Agent("A", model="fast")


@program
def main() -> None:
    f = A.submit("hi", timeout="2s")
    try:
        print(f.result())
    except Timeout:
        print("late")  # expect: late


# expect time: 2s
