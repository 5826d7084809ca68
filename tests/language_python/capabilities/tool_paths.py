# `allowed_paths` holds for the tool, whatever the model asks for.
# file: src/a.txt = "inside"
# file: secret.txt = "outside"
# reply: {"calls": [{"name": "read", "arguments": {"path": "secret.txt"}}]}
# reply: {"calls": [{"name": "read", "arguments": {"path": "src/a.txt"}}]}
# reply: done
from vegakit import Agent, program, vega


@program.tool(capabilities=["fs::read"], allowed_paths=["src/**"])
def read(path: str) -> str:
    "Read."
    text = vega.file.read(path)
    print(text)  # expect: inside
    return text


A = Agent("A", model="fast", tools=[read])


@program
def main() -> None:
    print(A("go"))  # expect: done
