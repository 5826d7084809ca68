# A tool asks a person before it acts.
# reply: {"calls": [{"name": "deploy", "arguments": {}}]}
# reply: deployed
# answer: yes
from vegakit import Agent, program, vega


@program.tool()
def deploy() -> str:
    "Deploy."
    if vega.human.approve("Deploy?", "1h"):
        print("approved")  # expect: approved
        return "done"
    return "denied"


A = Agent("A", model="fast", tools=[deploy])


@program
def main() -> None:
    print(A("deploy"))  # expect: deployed
