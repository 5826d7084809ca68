"""Lines that Python and a careless lowering mean differently: A and B are variables."""

__all__ = ["HAZARDS", "HEAD", "hazardous"]

HEAD = """from dataclasses import dataclass

from vegakit import Agent, AgentFailed, Failed, parallel, program, session, vega


@dataclass
class Point:
    x: int
    label: str
    note: str | None = None


ada = Agent("ada", model="fast", system="ada", max_tokens=50)

bob = Agent("bob", model="fast", system="bob", max_tokens=50)


def scaled(n: int, by: int) -> int:
    if n > by:
        return n - by
    return n * 2 + by


def joined(words: list[str], end: str = "!") -> str:
    made = ""
    for word in words:
        made += word + end
    return made


def moved(p: Point, by: int) -> Point:
    return Point(p.x + by, p.label, p.label)


def halved(x: float) -> float:
    return x / 2


def same(xs: list[int]) -> list[int]:
    return xs
"""

HAZARDS = (
    "A = [1, 2]\nB = A\nA.append(3)\nprint(len(B))",
    "A = [1, 2]\nB = A\nA += [3]\nprint(vega.text(B))",
    "A = [1, 2]\nB = same(A)\nA.append(3)\nprint(vega.text(B))",
    "A = [1]\nB = [A]\nA.append(2)\nprint(vega.text(B))",
    'A = [1]\nB = {"k": A}\nA[0] = 9\nprint(vega.text(B))',
    'A = {"k": 1}\nB = A\nA["k"] = 2\nprint(vega.text(B))',
    'A = Point(1, "a")\nB = A\nA.x = 5\nprint(B.x)',
    'A = Point(1, "a")\nB = [A]\nA.x = 5\nprint(B[0].x)',
    'A = [Point(1, "a")]\nB = A[0]\nB.x = 7\nprint(A[0].x)',
    'A = [Point(1, "a")]\nfor B in A:\n    B.x = 7\nprint(A[0].x)',
    "A = [1, 2]\nfor B in A:\n    if len(A) < 5:\n        A.append(B)\nprint(len(A))",
    "A = [0]\nB = [A]\nfor i in range(3):\n    A.append(i)\n    B.append(A)\nprint(len(B[0]))",
    "A = -7\nprint(A // 2, A % 3)",
    'A = 3 - len("abcdef")\nprint(A // 2, 7 % A)',
    "A = 5\nfor B in range(7):\n    A -= 2\n    print(A // 3)",
    "A = 7 / 2\nprint(vega.text(A > 3))",
    "A = [4, 5, 6]\nfor B in range(3):\n    print(A[B - 1])",
    'A = "word"\nprint(A[-1])',
    "A = len([1]) == 1\nprint(A)",
    'A = [True]\nprint(f"{A[0]} and {A}")',
    "A = 2.5\nprint(A * 2, A)",
    'A = {"k": 1}\nprint(A)',
    'A = Point(1, "a")\nprint(A.note)',
    "A = [5]\nB = A[:]\nA.append(6)\nprint(len(B))",
    'if len("a") == 2:\n    A = 1\nprint(A)',
    "for A in range(3):\n    print(A)\nprint(A)",
    "A = 1\nfor A in range(3):\n    print(A)\nprint(A)",
    "A = sum([0.5, 0.25])\nprint(vega.text(A))",
    'A = 1 < len("abc") < 5\nprint(vega.text(A))',
    'A = "" or "else"\nprint(A)',
    'A = "b" if len("x") == 1 else ada("never")\nprint(A)',
    'A = [1]\nB = {"k": A}\nB["k"] += [2]\nprint(len(A))',
    "A = [1]; B = A; A.append(2); print(len(B))",
    'A = {"k": 1}\nprint(A.get("k", [1][5]))',
    "A = 1\nB = 5 if A == 1 else [1][5]\nprint(B)",
    "A = 1\nB = [4][0] if A == 1 else [1][5]\nprint(B)",
    'try:\n    A = int("x")\nexcept ValueError:\n    print(A)\n    A = 2\nprint(A)',
    'if len("a") == 1:\n    print(A)\n    A = 1\nelse:\n    A = 2\nprint(A)',
    'try:\n    A = int("7")\nexcept ValueError:\n    A = 2\nprint(A)',
    'if len("a") == 1:\n    A = "x"\nelse:\n    A = "y"\nprint(A)',
    'try:\n    A = moved(Point(1, "a"), 2)\nexcept KeyError:\n    A = Point(1, "")\nprint(A.x)',
    'A = Point(1, "a") if len("a") == 1 else moved(Point(2, "b"), 1)\nprint(A.label)',
    'A = moved(Point(1, "a"), 2) if len("a") == 1 else moved(Point(2, "b"), 1)\nprint(A.x)',
    'A = {"k": 1}\nfor i, B in enumerate(A):\n    print(i, B)',
    "A = [1, 2]\nprint(len([B for B in enumerate(A)]))",
    "A = [3, 1]\nfor B in sorted(enumerate(A)):\n    print(B)",
    'A = {"k": 1}\nB = A.keys()\nA["l"] = 2\nprint(len(B))',
    'A = {"k": 1, "l": 2}\nB = {"l": 2, "k": 1}\nprint(vega.text(A.keys() == B.keys()))',
    'A = {"k": 1}\nprint(vega.text("k" in A.keys()), sum(A.values()), len(A.items()))',
    "A = [1]\nprint(len(reversed(A)))",
    "try:\n  A = 1\nexcept KeyError as e:\n  try:\n    B = 1\n  except KeyError as e:\n    B = 2",
    'A = {"k": 1}\nB = A.get("z", 0) or 5\nprint(B)',
    "A = 2.5\nA = 1 + 1\nprint(A)",
    "A: float = 2 - 1\nprint(A)",
    "A: float | None = 2 + 1\nB = A if A is not None else 0.5\nprint(B)",
    "A = [2.5, 1 + 1]\nprint(A[1])",
    "A: list[float] = [3 * 2, 2.5]\nprint(A[0])",
    'A = {"b": 1.5, "a": 1 * 2}\nprint(A["a"])',
    "A = [1.5]\nA[0] = 1 + 1\nprint(A[0])",
    "A = [1.5]\nA.append(1 + 1)\nprint(A[1])",
    "A = [1.5]\nA = A + [-(1 + 1)]\nprint(A[1])",
    "A = 3\nB = 1.5\nB = A * 2\nprint(B)",
    "A = 9007199254740992.0\nprint(vega.text(9007199254740993 == A))",
    "A = 9007199254740992.0\nprint(vega.text(A < 9007199254740993))",
    "print(vega.text(-9007199254740993 < -9007199254740992.0))",
    "A = 9007199254740992.0\nprint(vega.text(9007199254740993 in [A]))",
    "A = -9223372036854775808\nprint(A, vega.text(-9223372036854775808 < A + 1))",
    "A = -9223372036854775808\nB = abs(-5)\nprint(A + B, A // 2, A % 7)",
    "A = abs(-0.0)\nprint(A, abs(0.0), abs(-1.5), max(0.0, -0.0), min(0.0, -0.0))",
)


def hazardous(number: int) -> str:
    """The smallest program with this hazard."""
    lines = HAZARDS[number].replace("A", "first").replace("B", "second").split("\n")
    body = "\n".join(f"    {line}" for line in lines)
    return f'{HEAD}\n\n@program\ndef main() -> str:\n{body}\n    return ""\n'
