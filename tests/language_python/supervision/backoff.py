# Before each restart a random part of the wait, which doubles: at most 10 s, then 20 s.
# reply: {"crash": "1"}
# reply: {"crash": "2"}
# reply: here
from vegakit import Agent, program, spawn, vega

A = Agent("A", model="fast")


@program
def main() -> None:
    a = spawn(A, max_restarts=5, window="10m", backoff=vega.exponential("10s", 2.0, "30s"))
    print(a("hi"))  # expect: here
# expect calls: 3
# expect time: 2620ms
