from vegakit import Agent, program

finder = Agent("finder", model="fast")


@program
def main(path: str) -> str:
    found = finder.ask(path, output_type=list[str])
    return found[0]
