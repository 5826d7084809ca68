# A stream that failed before its first word is tried again like any call.
# reply: {"error": "overloaded"}
# reply: here
from vegakit import Agent, program

A = Agent("A", model="fast")


@program
def main() -> None:
    for chunk in A.stream("x"):
        print(chunk)  # expect: here


# expect calls: 2
