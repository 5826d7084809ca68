from vegakit import Agent, program

w = Agent("w", model="fast", retry=3)

@program
def main(x: str) -> str:
    return w(x)
