# A declared supervisor is spawned as a whole; its children are found by their names.
# reply "code": written
# reply "review": good
from vegakit import Agent, program, spawn, vega

Coder = Agent("Coder", model="fast")

Reviewer = Agent("Reviewer", model="fast")

Team = vega.supervisor(
    "Team",
    strategy="restart_all",
    max_restarts=5,
    window="1m",
    children=[Coder, Reviewer],
)


@program
def main() -> None:
    team = spawn(Team)
    coder = spawn(Coder, under=team)
    reviewer = spawn(Reviewer, under=team)
    print(coder("code"))  # expect: written
    print(reviewer("review"))  # expect: good
