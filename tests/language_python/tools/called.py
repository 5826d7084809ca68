# The model calls the tool, sees its result, and answers.
# reply: {"calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]}
# reply: It is 5.
from vegakit import Agent, program


@program.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    print(f"adding {a} and {b}")  # expect: adding 2 and 3
    return a + b


Calc = Agent("Calc", model="fast", tools=[add])


@program
def main() -> None:
    print(Calc("2 + 3?"))  # expect: It is 5.


# expect calls: 2
