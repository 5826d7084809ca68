# What an open branch does not touch is begun behind it; what it assigns is not.
# reply "one": yes
# reply "two": 2
# reply "more": 3
# reply "x 3": 4
# latency: 1s
from vegakit import Agent, program

A = Agent("A", model="fast")


@program
def main() -> None:
    answer = A("one")
    x = "none"
    if answer == "yes":
        x = A("more")
    b = A("two")
    c = A(f"x {x}")
    print(f"{b} {c}")  # expect: 2 4


# expect time: 3s
