from pydantic import BaseModel, Field
from vegakit import program

WIDTH = 2 * 3


class Finding(BaseModel):
    line: int = Field(ge=0)
    note: str = ""


@program
def main() -> None:
    print("n is " + 3)
