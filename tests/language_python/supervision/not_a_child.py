# Only children of a supervisor are found under it.
from vegakit import Agent, AgentFailed, program, spawn, vega

Coder = Agent("Coder", model="fast")

Other = Agent("Other", model="fast")

Team = vega.supervisor("Team", strategy="restart", children=[Coder])


@program
def main() -> None:
    team = spawn(Team)
    try:
        other = spawn(Other, under=team)
        print(f"{vega.text(other)}")
    except AgentFailed:
        print("no such child")  # expect: no such child
