from pydantic import BaseModel
from vegakit import Agent, program, vega


class Verdict(BaseModel):
    correct: bool
    comment: str


class Score(BaseModel):
    player: str
    score: int


judge = Agent("judge", model="fast", system="Judge answers in a quiz.", max_tokens=300)


@program(
    may=["fs::read", "net::post"],
    allowed_paths=["quiz.csv"],
    allowed_hosts=["127.0.0.1:8931"],
    budget="$5",
)
def main(base: str, player: str) -> list[str]:
    rows = vega.csv.parse(vega.file.read("quiz.csv"))
    score = 0
    comments: list[str] = []
    for row in vega.list.take(rows, 10):
        question = row["question"]
        right = row["answer"]
        said = vega.human.ask(question, timeout="10s")
        if said is None:
            comments = comments + ["no answer"]
        else:
            verdict = judge.ask(
                f"Question: {question}\nRight answer: {right}\nThe player said: {said}\nIs it right?",
                returns=Verdict,
            )
            comments = comments + [verdict.comment]
            if verdict.correct:
                score = score + 1
    vega.http.post(f"{base}/scores", vega.json.text(Score(player=player, score=score)))
    return comments
