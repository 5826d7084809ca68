# Restarts count inside the window only: two crashes, a minute between them.
# reply "a": {"crash": "1"}
# reply "a": fine
# reply "b": {"crash": "2"}
# reply "b": fine again
from vegakit import Agent, program, spawn, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    a = spawn(A, strategy="restart", max_restarts=1, window="10s")
    print(a("a"))  # expect: fine
    vega.process.sleep("1m")
    print(a("b"))  # expect: fine again
