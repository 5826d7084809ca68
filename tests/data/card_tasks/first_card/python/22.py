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
    message = f"Vote on this proposal, and give your reason:\n{proposal}"
    a = legal.ask(message, returns=Opinion)
    b = finance.ask(message, returns=Opinion)
    c = engineering.ask(message, returns=Opinion)
    opinions = [a, b, c]
    yes = len([o for o in opinions if o.vote == "yes"])
    no = len([o for o in opinions if o.vote == "no"])
    accepted = yes > no
    if yes == no:
        said = vega.human.ask(f"The vote is tied. Accept this proposal, yes or no?\n{proposal}", timeout="20s")
        accepted = vega.default(said, "no").strip() == "yes"
    lines = [
        f"legal: {a.vote}, {a.reason}",
        f"finance: {b.vote}, {b.reason}",
        f"engineering: {c.vote}, {c.reason}",
    ]
    vega.file.write("minutes.md", "\n".join(lines))
    return Result(yes=yes, no=no, abstain=3 - yes - no, accepted=accepted)
