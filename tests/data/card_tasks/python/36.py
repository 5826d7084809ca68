from pydantic import BaseModel
from vegakit import (
    Agent,
    AgentFailed,
    Cancelled,
    ContractViolated,
    Failed,
    Timeout,
    program,
    race,
    vega,
)


class Answer(BaseModel):
    known: bool
    answer: str


plants = Agent("plants", model="smart", system="You know plants.", max_tokens=300)
birds = Agent("birds", model="smart", system="You know birds.", max_tokens=300)
stones = Agent("stones", model="smart", system="You know stones.", max_tokens=300)


@program(may=["fs::write"], allowed_paths=["known.txt"], budget="$5")
def main(question: str) -> str:
    known = False
    answer = ""
    try:
        best = race(
            plants.ask(question, returns=Answer, timeout="12s"),
            birds.ask(question, returns=Answer, timeout="12s"),
            stones.ask(question, returns=Answer, timeout="12s"),
            good=lambda y: y.known,
        )
        answer = best.answer
        known = best.known
    except AgentFailed:
        known = False
    except Timeout:
        known = False
    except ContractViolated:
        known = False
    except Cancelled:
        known = False
    except Failed:
        known = False
    if known:
        vega.file.write("known.txt", answer)
        return answer
    return "nobody knows"
