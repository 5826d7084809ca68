from pydantic import BaseModel
from vegakit import Agent, BudgetExceeded, program, vega


class Paper(BaseModel):
    topic: str
    pages: int


reader = Agent("reader", model="fast", system="Name the topic and the number of pages.", max_tokens=300)


@program(
    may=["fs::read", "fs::write"],
    allowed_paths=["papers", "papers/**", "topics.json"],
    budget="$0.10",
)
def main() -> list[str]:
    topics: dict[str, str] = {}
    dear: list[str] = []
    for path in vega.file.list("papers"):
        name = vega.file.name(path)
        text = vega.file.read(path)
        try:
            paper = reader.ask(f"What is this paper about?\n{text}", returns=Paper, budget="$0.01")
            topics[name] = paper.topic
        except BudgetExceeded:
            dear = dear + [name]
    vega.file.write("topics.json", vega.json.text(topics))
    return sorted(dear)
