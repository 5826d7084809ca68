from typing import Annotated

from vegakit import Agent, MaxLen, program, spawn, vega


@program.tool(capabilities=["fs::read"], allowed_paths=["prices.json"])
def price(item: str) -> str:
    "The price of an item in cents, or unknown."
    prices = vega.cast(vega.json.parse(vega.file.read("prices.json")), dict[str, int])
    cents = vega.map.get(prices, item)
    if cents is None:
        return "unknown"
    return f"{cents}"


assistant = Agent(
    "assistant",
    model="fast",
    system="You help in a shop. Look prices up with the tool.",
    max_tokens=300,
    max_steps=4,
    memory="conversation",
    tools=[price],
)


@program(may=["fs::write"], allowed_paths=["transcript.md"], budget="$0.50")
def main(questions: Annotated[list[str], MaxLen(10)]) -> str:
    helper = spawn(assistant, wallet="$0.50")
    lines: list[str] = []
    answer = ""
    for question in questions:
        answer = helper(question)
        lines = lines + [f"Q: {question}", f"A: {answer}"]
    vega.file.write("transcript.md", "\n".join(lines) + "\n")
    return answer
