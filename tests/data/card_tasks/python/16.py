from pydantic import BaseModel
from vegakit import Agent, Timeout, program, vega


class Row(BaseModel):
    question: str
    model: str
    answer: str


smart = Agent("smart", model="smart", max_tokens=300)
fast = Agent("fast", model="fast", max_tokens=300)


@program(
    may=["net::get", "fs::write"],
    allowed_hosts=["127.0.0.1:8931"],
    allowed_paths=["answers.csv"],
    budget="$5",
)
def main(base: str) -> int:
    response = vega.http.get(f"{base}/questions")
    questions = vega.cast(vega.json.parse(response.body), list[str])
    rows: list[Row] = []
    slow = 0
    for question in vega.list.take(questions, 12):
        model = "smart"
        answer = ""
        try:
            answer = smart(question, timeout="2s")
        except Timeout:
            model = "fast"
            answer = fast(question)
            slow = slow + 1
        rows = rows + [Row(question=question, model=model, answer=answer)]
    vega.file.write("answers.csv", vega.csv.text(rows))
    return slow
