# A call that failed is an answer, not a crash: no restart is counted.
# reply: {"error": "rejected"}
# reply: {"error": "rejected"}
# reply: {"error": "rejected"}
# reply: {"error": "rejected"}
# reply: {"error": "rejected"}
# reply: alive
from vegakit import Agent, AgentFailed, program, spawn, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    a = spawn(A, strategy="restart", max_restarts=1, window="1m")
    for i in range(5):
        try:
            a("hi")
        except AgentFailed:
            vega.trace.event("failed")
    print(a("hi"))  # expect: alive
