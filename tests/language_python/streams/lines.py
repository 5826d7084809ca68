# Pieces are put together as the program likes.
# reply: "one two\nthree"
from vegakit import Agent, program, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    text = ""
    for chunk in A.stream("x"):
        text += chunk
    print(vega.text(vega.str.lines(text)))  # expect: ["one two","three"]
