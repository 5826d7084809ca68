from vegakit import Agent, program

writer = Agent("writer", model="fast")


@program
def main(topic: str) -> str:
    attempts = 0
    while True:
        attempts++
        if attempts > 3:
            break
    return writer(topic)
