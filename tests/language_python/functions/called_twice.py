# Two calls at two places, and in a loop: each send is its own.
# reply: a
# reply: b
# reply: c
# reply: d
from vegakit import Agent, program

A = Agent("A", model="fast")


def ask() -> str:
    return A("same")


@program
def main() -> None:
    x = ask()
    y = ask()
    all_ = x + y
    for i in range(2):
        all_ += ask()
    print(all_)  # expect: abcd


# expect calls: 4
