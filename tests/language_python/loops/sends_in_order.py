# The answers of sends in a loop stay in order.
# reply "a": A
# reply "b": B
# reply "c": C
from vegakit import Agent, program, vega

Up = Agent("Up", model="fast")


@program
def main() -> None:
    all_: list[str] = []
    for x in ["a", "b", "c"]:
        answer = Up(x)
        all_.append(answer)
    print(vega.text(all_))  # expect: ["A","B","C"]


# expect calls: 3
