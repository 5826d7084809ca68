from vegakit import Agent, program

w = Agent("w", model="fast")

@program
def main(x: str) -> str:
    result = w.ask(x, timeout="30 seconds")
    return result
