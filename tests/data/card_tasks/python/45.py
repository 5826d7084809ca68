from pydantic import BaseModel
from vegakit import Agent, program, vega


class Claim(BaseModel):
    id: str
    who: str
    text: str
    cents: int


class Ruling(BaseModel):
    allowed: bool
    why: str


class Decision(BaseModel):
    id: str
    decision: str


class Report(BaseModel):
    paid: int
    reasons: dict[str, str]


clerk = Agent("clerk", model="smart", system="You decide claims by the policy.", max_tokens=300)


@program(
    may=["fs::read", "net::post"],
    allowed_paths=["claims.json", "policy.txt"],
    allowed_hosts=["127.0.0.1:8931"],
    budget="$5",
)
def main(base: str) -> Report:
    claims = vega.cast(vega.json.parse(vega.file.read("claims.json")), list[Claim])
    policy = vega.file.read("policy.txt")
    decisions: list[Decision] = []
    reasons: dict[str, str] = {}
    paid = 0
    for claim in vega.list.take(claims, 20):
        decision = "paid"
        if claim.cents > 50000:
            agreed = vega.human.approve(
                f"Pay claim {claim.id} of {claim.who} ({claim.cents} cents)?", "10s"
            )
            if not agreed:
                decision = "held"
        elif claim.cents > 5000:
            ruling = clerk.ask(
                "Is this claim allowed by the policy, and why?\n\n"
                f"Policy:\n{policy}\n\nClaim:\n{claim.text}",
                returns=Ruling,
            )
            if not ruling.allowed:
                decision = "refused"
                reasons[claim.id] = ruling.why
        if decision == "paid":
            paid = paid + claim.cents
        decisions = decisions + [Decision(id=claim.id, decision=decision)]
    for d in decisions:
        vega.http.post(f"{base}/decisions", vega.json.text(d))
    return Report(paid=paid, reasons=reasons)
