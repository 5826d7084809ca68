from vegakit import program

writer = Agent("writer", model="fast")


@program
def main(topic: str) -> str:
    return writer(topic)
