# A process whose answer came too late answers the next message.
# reply "slow": never seen
# reply "again": here
# latency: 2s
from vegakit import Agent, Timeout, program, spawn

A = Agent("A", model="fast")


@program
def main() -> None:
    a = spawn(A)
    try:
        print(a.ask("slow", timeout="1s"))
    except Timeout:
        print("late")  # expect: late
    print(a.ask("again", timeout="5s"))  # expect: here
