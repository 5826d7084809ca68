# A tool without `capabilities` has none: it is warned of, and denied.
# file: a.txt = "secret"
# reply: {"calls": [{"name": "read", "arguments": {"path": "a.txt"}}]}
# reply: I may not
from vegakit import Agent, program, vega


@program.tool()
def read(path: str) -> str:
    "Read."
    return vega.file.read(path)  # warning: missing-capability


A = Agent("A", model="fast", tools=[read])


@program
def main() -> None:
    print(A("read a.txt"))  # expect: I may not
