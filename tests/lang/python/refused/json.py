import json
from vegakit import Agent, program

finder = Agent("finder", model="fast")


@program
def main(path: str) -> str:
    found = json.loads(finder(path))
    return found["file"]
