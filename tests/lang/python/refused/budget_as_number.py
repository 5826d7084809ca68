from vegakit import Agent, program

finder = Agent("finder", model="fast", budget=0.5)


@program(budget=1)
def main(path: str) -> str:
    return finder(path)
