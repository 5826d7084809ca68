# A supervisor waits before it restarts; the sibling of the one that crashed answers meanwhile.
# reply "code": {"crash": "boom"}
# reply "code": written
# reply "review": good
from vegakit import Agent, parallel, program, spawn, vega

Coder = Agent("Coder", model="fast")

Reviewer = Agent("Reviewer", model="fast")

Team = vega.supervisor(
    "Team",
    strategy="restart",
    backoff=vega.exponential("1m", 2.0, "5m"),
    children=[Coder, Reviewer],
)


@program
def main() -> None:
    team = spawn(Team)
    coder = spawn(Coder, under=team)
    reviewer = spawn(Reviewer, under=team)
    with parallel():
        print(reviewer("review"))  # expect: good
        print(coder("code"))  # expect: written
# expect time: 5824ms
