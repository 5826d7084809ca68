# A model that says nothing is asked again, once.
# reply: {"text": ""}
# reply: now
from vegakit import Agent, program

A = Agent("A", model="fast")


@program
def main() -> None:
    print(A("hi"))  # expect: now


# expect calls: 2
