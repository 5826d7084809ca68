from typing import Literal

from pydantic import BaseModel
from vegakit import Agent, program, vega


class Opinion(BaseModel):
    vote: Literal["yes", "no", "abstain"]
    reason: str


class Result(BaseModel):
    yes: int
    no: int
    abstain: int
    accepted: bool


legal = Agent("legal", model="fast", system="You speak for legal.", max_tokens=300)
finance = Agent("finance", model="fast", system="You speak for finance.", max_tokens=300)
engineering = Agent("engineering", model="fast", system="You speak for engineering.", max_tokens=300)


@program(may=["fs::write"], allowed_paths=["minutes.md"], budget="$5")
def main(proposal: str) -> Result:
    question = f"Vote on this proposal and give your reason: {proposal}"
    a = legal.ask(question, returns=Opinion)
    b = finance.ask(question, returns=Opinion)
    c = engineering.ask(question, returns=Opinion)
    votes = [a.vote, b.vote, c.vote]
    yes = len([v for v in votes if v == "yes"])
    no = len([v for v in votes if v == "no"])
    accepted = yes > no
    if yes == no:
        answer = vega.human.ask(f"The vote is tied. Accept, yes or no? {proposal}", timeout="20s")
        accepted = vega.default(answer, "").strip().lower() == "yes"
    lines = [
        f"legal: {a.vote}, {a.reason}",
        f"finance: {b.vote}, {b.reason}",
        f"engineering: {c.vote}, {c.reason}",
    ]
    vega.file.write("minutes.md", "\n".join(lines) + "\n")
    return Result(yes=yes, no=no, abstain=3 - yes - no, accepted=accepted)
