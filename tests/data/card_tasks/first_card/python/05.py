from typing import Annotated

from pydantic import BaseModel
from vegakit import Agent, Failed, MaxLen, Timeout, program, vega


class Guess(BaseModel):
    answer: str
    confidence: int


solver = Agent("solver", model="fast", system="Solve riddles. Confidence is 0 to 100.", max_tokens=300)


@program(may=["fs::write"], allowed_paths=["answer.txt"], budget="$5")
def main(riddle: str, hints: Annotated[list[str], MaxLen(4)]) -> str:
    answers: list[str] = []
    for hint in hints:
        try:
            guess = solver.ask(f"Riddle: {riddle}\nHint: {hint}", returns=Guess, timeout="8s")
            if guess.confidence >= 80:
                answers = answers + [guess.answer]
        except Timeout:
            print(f"no answer with the hint {hint}")
    answer = vega.list.first(answers)
    if answer is None:
        raise Failed("no confident answer")
    vega.file.write("answer.txt", answer)
    return answer
