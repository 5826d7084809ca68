# A word in costs $0.000001, a word out $0.000005.
# reply: three short words
from vegakit import Agent, program

A = Agent("A", model="fast", system="Be brief.")


@program
def main() -> None:
    print(A("one two three"))  # expect: three short words


# 2 + 3 words in, 3 words out
# expect spent: $0.00002
