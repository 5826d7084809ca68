from enum import Enum
from vegakit import Agent, program


class Severity(Enum):
    LOW = "low"
    HIGH = "high"


judge = Agent("judge", model="fast")


@program
def main(text: str) -> str:
    s = judge.ask(text, returns=Severity)
    return s
