from pydantic import BaseModel
from vegakit import Agent, program, vega


class Mark(BaseModel):
    correct: bool
    comment: str


class Score(BaseModel):
    player: str
    score: int


judge = Agent("judge", model="fast", system="Judge answers of a quiz.", max_tokens=300)


@program(
    may=["fs::read", "net::post"],
    allowed_paths=["quiz.csv"],
    allowed_hosts=["127.0.0.1"],
    budget="$5",
)
def main(base: str, player: str) -> list[str]:
    comments: list[str] = []
    score = 0
    for row in vega.csv.parse(vega.file.read("quiz.csv")):
        question = row["question"]
        right = row["answer"]
        said = vega.human.ask(question, timeout="10s")
        if said is None:
            comments = comments + ["no answer"]
        else:
            mark = judge.ask(
                f"Question: {question}\nRight answer: {right}\nThe player said: {said}\nIs that right?",
                returns=Mark,
            )
            comments = comments + [mark.comment]
            if mark.correct:
                score = score + 1
    vega.http.post(f"{base}/scores", vega.json.text(Score(player=player, score=score)))
    return comments
