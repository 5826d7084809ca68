# Each round asks anew.
# reply: yes
# reply: yes
# reply: no
from vegakit import Agent, program, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    n = 0
    while vega.limit(9, A("again?") == "yes"):
        n += 1
    print(n)  # expect: 2


# expect calls: 3
