# A cut stream raises after its prefix.
# reply: {"text": "once upon", "error": "connection"}
from vegakit import Agent, AgentFailed, program

A = Agent("A", model="fast")


@program
def main() -> None:
    try:
        for chunk in A.stream("a story"):
            print(f"[{chunk}]")
    except AgentFailed:
        print("cut")


# expect: [once]
# expect: [ upon]
# expect: cut
# expect calls: 1
