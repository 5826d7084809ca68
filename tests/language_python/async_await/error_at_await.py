# It raises where it is awaited, not where it is sent.
# reply: {"error": "rejected"}
from vegakit import Agent, program

A = Agent("A", model="fast")


@program
def main() -> None:
    f = A.submit("hi")
    print("sent")  # expect: sent
    print(f.result())  # error: AgentFailed
