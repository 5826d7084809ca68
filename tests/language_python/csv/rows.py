# Quotes, missing cells, empty lines.
# file: in.csv = "name,age\n\"Lovelace, Ada\",36\r\n\nBob\n\"says \"\"hi\"\"\",\"two\nlines\"\n"
from vegakit import program, vega


@program(may=["fs::read"])
def main() -> None:
    rows = vega.csv.parse(vega.file.read("in.csv"))
    for row in rows:
        print(f"{row['name']}: {row['age']}")
    # expect: Lovelace, Ada: 36
    # expect: Bob:
    # expect: says "hi": two
    # expect: lines
    print(
        vega.text(
            vega.csv.text(rows)
            == 'name,age\n"Lovelace, Ada",36\nBob,\n"says ""hi""","two\nlines"\n'
        )
    )  # expect: true
    print(vega.text(vega.csv.parse(vega.csv.text(rows)) == rows))  # expect: true
    print(len(vega.csv.parse("")))  # expect: 0
