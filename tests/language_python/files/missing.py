from vegakit import ToolFailed, program, vega


@program(may=["fs::read"])
def main() -> None:
    try:
        print(vega.file.read("gone.txt"))
    except ToolFailed:
        print("no such file")  # expect: no such file
