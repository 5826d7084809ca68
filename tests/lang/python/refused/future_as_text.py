from vegakit import Agent, program

writer = Agent("writer", model="fast")


@program
def main(topic: str) -> str:
    later = writer.submit(topic)
    return later + "!"
