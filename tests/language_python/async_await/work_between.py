# reply: done
# latency: 5s
from vegakit import Agent, program, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    f = A.submit("hi")
    vega.process.sleep("3s")
    print("meanwhile")  # expect: meanwhile
    print(f.result())  # expect: done


# expect time: 5s
