# Two sends under way at once take as long as the longer.
# reply "a": A
# reply "b": B
# latency: 3s
from vegakit import Agent, program

Up = Agent("Up", model="fast")


@program
def main() -> None:
    one = Up.submit("a")
    two = Up.submit("b")
    print(one.result() + two.result())  # expect: AB


# expect time: 3s
