# file: a.txt = "public"
# reply: {"calls": [{"name": "read", "arguments": {"path": "a.txt"}}]}
# reply: It says public
from vegakit import Agent, program, vega


@program.tool(capabilities=["fs::read"])
def read(path: str) -> str:
    "Read."
    text = vega.file.read(path)
    print(text)  # expect: public
    return text


A = Agent("A", model="fast", tools=[read])


@program
def main() -> None:
    print(A("read a.txt"))  # expect: It says public
