# reply "outer": a b
# reply "inner": x y
# reply "inner": z
from vegakit import Agent, program

A = Agent("A", model="fast")


@program
def main() -> None:
    for o in A.stream("outer"):
        for i in A.stream(f"inner {o}"):
            print(f"{o.strip()}{i.strip()}")


# expect: ax
# expect: ay
# expect: bz
