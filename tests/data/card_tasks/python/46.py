from typing import Annotated, Literal

from pydantic import BaseModel
from vegakit import Agent, MaxLen, program, vega


class Difference(BaseModel):
    article: str
    expected: int
    counted: int
    reason: str | None


auditor = Agent("auditor", model="fast", system="You explain differences in stock.", max_tokens=300)


@program(
    may=["process::exec", "net::get", "fs::write"],
    allowed_commands=["sh scripts/count.sh **"],
    allowed_hosts=["127.0.0.1:8931"],
    allowed_paths=["differences.json"],
    budget="$5",
)
def main(base: str, warehouses: Annotated[list[str], MaxLen(4)]) -> list[Difference]:
    articles: list[str] = []
    counted: dict[str, int] = {}
    expected: dict[str, int] = {}
    for name in warehouses:
        for line in vega.str.lines(vega.exec(f"sh scripts/count.sh {name}")):
            words = line.split()
            if len(words) >= 2:
                found = words[0]
                articles = articles + [found]
                counted[found] = vega.default(vega.map.get(counted, found), 0) + int(words[1])
        response = vega.http.get(f"{base}/stock/{name}")
        stock = vega.cast(vega.json.parse(response.body), dict[str, int])
        for listed, number in stock.items():
            articles = articles + [listed]
            expected[listed] = vega.default(vega.map.get(expected, listed), 0) + number

    differences: list[Difference] = []
    for article in vega.list.unique(articles):
        there = vega.default(vega.map.get(counted, article), 0)
        wanted = vega.default(vega.map.get(expected, article), 0)
        if there != wanted:
            reason: str | None = None
            if abs(there - wanted) >= 10:
                reason = auditor.ask(
                    f"Of the article {article} there should be {wanted}, and {there} were counted. "
                    "What is the reason?",
                    returns=Literal["theft", "typo", "unknown"],
                )
            differences = differences + [
                Difference(article=article, expected=wanted, counted=there, reason=reason)
            ]
    differences = sorted(differences, key=lambda d: d.article)
    differences = sorted(differences, key=lambda d: -abs(d.counted - d.expected))
    vega.file.write("differences.json", vega.json.text(differences))
    return differences
