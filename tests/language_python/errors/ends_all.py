# After an uncaught error nothing more happens.
# reply: never asked
from vegakit import Agent, Failed, program

A = Agent("A", model="fast")


@program
def main() -> None:
    raise Failed("stop")  # error: Failed: stop
    x = A("hi")  # warning: unreachable
    print(x)


# expect calls: 0
