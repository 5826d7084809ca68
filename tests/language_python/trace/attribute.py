from vegakit import program, vega


@program
def main() -> None:
    vega.trace.set_attribute("files", 3)
    vega.trace.set_attribute("names", ["a"])


# expect note: attribute files = 3
# expect note: attribute names = ["a"]
