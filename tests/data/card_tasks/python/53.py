from pydantic import BaseModel
from vegakit import Agent, program, vega


class Answer(BaseModel):
    answer: str
    sure: int


class Result(BaseModel):
    question: str
    answer: str | None
    by: str


quick = Agent(
    "quick",
    model="fast",
    system="Answer, and say from 0 to 100 how sure you are.",
    max_tokens=300,
)
careful = Agent(
    "careful",
    model="smart",
    system="Answer, and say from 0 to 100 how sure you are.",
    max_tokens=300,
)


@program(
    may=["fs::read", "fs::write"],
    allowed_paths=["questions.txt", "answers.txt"],
    budget="$5",
)
def main() -> list[Result]:
    questions = [x for x in vega.str.lines(vega.file.read("questions.txt")) if len(x.strip()) > 0]
    results: list[Result] = []
    lines: list[str] = []
    for question in vega.list.take(questions, 10):
        first = quick.ask(question, returns=Answer)
        answer: str | None = first.answer
        by = "fast"
        if first.sure < 70:
            second = careful.ask(question, returns=Answer)
            answer = second.answer
            by = "smart"
            if second.sure < 50:
                said = vega.human.ask(question, "10s")
                answer = said
                if said is None:
                    by = "nobody"
                else:
                    by = "person"
        results = results + [Result(question=question, answer=answer, by=by)]
        if answer is not None:
            lines = lines + [f"{question} {answer}"]
    vega.file.write("answers.txt", "\n".join(lines))
    return results
