"""The same plans in the words of each system, as a model would send them.

| plan       | asks `reader`                                             |
|------------|-----------------------------------------------------------|
| at_once    | 355 times, all at once                                    |
| in_turn    | 355 times, one after the other                            |
| in_session | as at_once, inside a session that may spend a dollar      |
| rounds     | ten times six, each round with a count of the last ones   |
| sixty      | 60 times, all at once                                     |
| misspelled | `raeder`, which nobody gave                               |
| touching   | once, then reads a file, which nobody granted             |
"""

__all__ = ["ASKS", "CAP", "MODEL", "PER_ROUND", "PYTHON", "ROUNDS", "TOOLS", "VEGA"]

MODEL = "gpt-4.1"
CAP = "1"
"""Dollars, for each way."""
ASKS, ROUNDS, PER_ROUND = 355, 10, 6

_AT_ONCE = f"""    let asked = [for n in range({ASKS}) {{ async reader <- "Read page {{n}}." }}];
    let words = 0;
    for one in asked {{ words = words + len(str::split(await one, " ")); }}
"""
VEGA = {
    "at_once": f"fn main() -> int {{\n{_AT_ONCE}    return words;\n}}\n",
    "in_turn": f"""fn main() -> int {{
    let words = 0;
    for page in range({ASKS}) {{
        let said = reader <- "Read page {{page}}.";
        words = words + len(str::split(said, " "));
    }}
    return words;
}}
""",
    "in_session": f"fn main() -> int {{\n    session budget ${CAP}.00 {{\n{_AT_ONCE}"
    "    return words;\n    }\n}\n",
    "rounds": f"""fn main() -> int {{
    let words = 0;
    let before = 0;
    for round in range({ROUNDS}) {{
        let asked = [for n in range({PER_ROUND}) {{
            async reader <- "Read {{round}}.{{n}}; {{before}} words so far."
        }}];
        for one in asked {{ words = words + len(str::split(await one, " ")); }}
        before = words;
    }}
    return words;
}}
""",
    "sixty": f"fn main() -> int {{\n{_AT_ONCE.replace(str(ASKS), '60')}    return words;\n}}\n",
    "misspelled": 'fn main() -> str {\n    return raeder <- "Read page 0.";\n}\n',
    "touching": """program may [fs::read]

fn main() -> str {
    let said = reader <- "Read page 0.";
    return said + file::read("notes.txt");
}
""",
}
_GATHER = """import asyncio
said = await asyncio.gather(*[reader(task=f"Read page {page}.") for page in range(ASKS)])
sum([len(one.split(" ")) for one in said])
"""
PYTHON = {
    "at_once": _GATHER.replace("ASKS", str(ASKS)),
    "sixty": _GATHER.replace("ASKS", "60"),
    "in_turn": f"""words = 0
for page in range({ASKS}):
    words += len((await reader(task=f"Read page {{page}}.")).split(" "))
words
""",
    "rounds": f"""import asyncio
words = 0
for round in range({ROUNDS}):
    said = await asyncio.gather(
        *[
            reader(task=f"Read {{round}}.{{n}}; {{words}} words so far.")
            for n in range({PER_ROUND})
        ]
    )
    words += sum([len(one.split(" ")) for one in said])
words
""",
    "misspelled": 'await raeder(task="Read page 0.")\n',
    "touching": """from pathlib import Path
said = await reader(task="Read page 0.")
said + Path("notes.txt").read_text()
""",
}
TOOLS = {
    "run_program": ("source", VEGA),
    "run_workflow": ("code", PYTHON),
    "run_code": ("code", PYTHON),
}
"""By the tool that takes a plan: the argument that holds it, and the plans in its language."""
