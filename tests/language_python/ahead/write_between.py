# A read stays behind a write that may be of the same file.
# file: notes.txt = "old"
# reply "one": 1
# latency: 1s
from vegakit import Agent, program, vega

A = Agent("A", model="fast")


@program(may=["fs::read", "fs::write"])
def main() -> None:
    a = A("one")
    vega.file.write("notes.txt", a)
    print(vega.file.read("notes.txt"))  # expect: 1
