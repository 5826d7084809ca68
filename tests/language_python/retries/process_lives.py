# A call that failed after its retries is an answer; the process lives.
# reply: {"error": "rejected"}
# reply: alive
from vegakit import Agent, AgentFailed, program, spawn

A = Agent("A", model="fast")


@program
def main() -> None:
    a = spawn(A)
    try:
        print(a("one"))
    except AgentFailed:
        print("failed")  # expect: failed
    print(a("two"))  # expect: alive
