from vegakit import Agent, program

writer = Agent("writer", model="fast")


@program
def main(topic: str) -> str:
    return writer.run(topic)
