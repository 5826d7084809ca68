# A loop around a model has a limit on what it can do.
# reply: no
# reply: no
# reply: yes
from vegakit import Agent, program, vega

Judge = Agent("Judge", model="fast")


@program
def main() -> None:
    tries = 0
    verdict = "no"
    while vega.limit(5, verdict == "no"):
        verdict = Judge("Is it good?")
        tries += 1
    print(f"{verdict} after {tries}")  # expect: yes after 3
