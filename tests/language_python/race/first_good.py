# The first answer that is good wins: a quicker one that is not is passed over.
# reply "quick": no
# reply "then": {"output": {"score": 7}}
# reply "score": {"output": {"score": 3}}
# reply "score": {"output": {"score": 3}}
# reply "slow": long enough
# latency: 2s
from pydantic import BaseModel

from vegakit import Agent, program, race, vega


class Draft(BaseModel):
    score: int


Writer = Agent("Writer", model="fast")


def slow() -> str:
    vega.process.sleep("1s")
    return Writer("slow")


def second() -> Draft:
    first = Writer.ask("score", returns=Draft)
    return Writer.ask(f"then {first.score}", returns=Draft)


@program
def main() -> None:
    found = race(Writer("quick"), slow(), good=lambda text: len(text) > 3)
    print(found)  # expect: long enough
    least = 5
    best = race(
        second(), Writer.ask("score", returns=Draft), good=lambda draft: draft.score > least
    )
    print(best.score)  # expect: 7
    # expect time: 7s
