from typing import Literal

from pydantic import BaseModel
from vegakit import Agent, program, vega


class Team(BaseModel):
    answers: int
    average: float
    bad: int


class Ranked(BaseModel):
    team: str
    average: float


reader = Agent("reader", model="fast", system="You judge the mood of comments.", max_tokens=300)


@program(
    may=["fs::read", "fs::write"],
    allowed_paths=["survey.csv", "survey.json"],
    budget="$5",
)
def main() -> list[str]:
    rows = vega.list.take(vega.csv.parse(vega.file.read("survey.csv")), 50)
    answers: dict[str, int] = {}
    scores: dict[str, int] = {}
    bads: dict[str, int] = {}
    for row in rows:
        team = row["team"]
        comment = row["comment"]
        answers[team] = vega.default(vega.map.get(answers, team), 0) + 1
        scores[team] = vega.default(vega.map.get(scores, team), 0) + int(row["score"])
        if len(comment.strip()) > 0:
            mood = reader.ask(
                f"What is the mood of this comment?\n{comment}",
                returns=Literal["good", "mixed", "bad"],
            )
            if mood == "bad":
                bads[team] = vega.default(vega.map.get(bads, team), 0) + 1

    teams: dict[str, Team] = {}
    ranked: list[Ranked] = []
    for name, count in answers.items():
        average = round(float(scores[name]) / float(count), 2)
        bad = vega.default(vega.map.get(bads, name), 0)
        teams[name] = Team(answers=count, average=average, bad=bad)
        ranked = ranked + [Ranked(team=name, average=average)]
    vega.file.write("survey.json", vega.json.text(teams))
    ranked = sorted(ranked, key=lambda r: r.team)
    ranked = sorted(ranked, key=lambda r: r.average)
    return [r.team for r in ranked]
