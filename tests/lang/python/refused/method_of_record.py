from pydantic import BaseModel
from vegakit import program


class Point(BaseModel):
    x: int
    y: int

    def total(self) -> int:
        return self.x + self.y


@program
def main() -> int:
    return Point(x=1, y=2).total()
