# With `restart_all` a crash of one begins a new life for all, and the message is answered.
# reply "code": {"crash": "boom"}
# reply "code": written
# reply "review": good
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
