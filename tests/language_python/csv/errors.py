# What is no CSV is told.
from vegakit import program, vega


@program
def main() -> None:
    for text in ["a,b\n1,2,3", "a,a\n", 'a\n"b']:
        try:
            print(vega.text(vega.csv.parse(text)))
        except ValueError as e:
            print(vega.reason(e))
    # expect: line 2 of the CSV has 3 cells for 2 columns
    # expect: two columns of the CSV have the same name
    # expect: not CSV: unexpected end of data
