# reply "boom": {"crash": "boom"}
# reply "hi": here
from vegakit import Agent, AgentFailed, program, spawn

A = Agent("A", model="fast")

B = Agent("B", model="fast")


@program
def main() -> None:
    a = spawn(A, strategy="stop")
    b = spawn(B)
    try:
        a("boom")
    except AgentFailed:
        print("a is gone")  # expect: a is gone
    print(b("hi"))  # expect: here
