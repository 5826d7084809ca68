# reply "a": one two
# reply "b": three
from vegakit import Agent, parallel, program

A = Agent("A", model="fast")


def read(what: str) -> str:
    all_ = ""
    for chunk in A.stream(what):
        all_ += f"<{chunk}>"
    return all_


@program
def main() -> None:
    with parallel():
        x = read("a")
        y = read("b")
    print(x + y)  # expect: <one>< two><three>
