from vegakit import program


@program
def main() -> str:
    name = input("Name? ")
    return name
