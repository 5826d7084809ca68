from vegakit import program, vega


@program
def main() -> None:
    for i in range(3):
        vega.trace.event(f"round {i}")


# expect note: event round 0
# expect note: event round 1
# expect note: event round 2
