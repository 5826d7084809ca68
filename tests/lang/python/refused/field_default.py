from pydantic import BaseModel, Field
from vegakit import program


class Point(BaseModel):
    x: int = Field(description="how far")


@program
def main() -> int:
    return Point(x=1).x
