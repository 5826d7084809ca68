from vegakit import program, vega


@program(may=["fs::read", "fs::write"])
def main() -> None:
    vega.file.write("out.txt", "one\ntwo")
    print(vega.text(vega.str.lines(vega.file.read("out.txt"))))  # expect: ["one","two"]
