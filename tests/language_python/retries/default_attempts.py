# Without a block there are three attempts.
# reply: {"error": "overloaded"}
# reply: {"error": "overloaded"}
# reply: {"error": "overloaded"}
# reply: too late
from vegakit import Agent, AgentFailed, program

A = Agent("A", model="fast")


@program
def main() -> None:
    try:
        print(A("hi"))
    except AgentFailed:
        print("gave up")  # expect: gave up


# expect calls: 3
