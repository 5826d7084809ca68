from vegakit import Agent, program

finder = Agent("finder", model="fast", temperature="0.2", max_tokens="100")


@program
def main(path: str) -> str:
    return finder(path)
