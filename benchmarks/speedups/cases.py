"""What every program is given, and what its agents are told: the same whoever runs it.

Imported in two environments, so it imports nothing of ours.
"""

from enum import StrEnum
from pathlib import Path
from typing import Any

__all__ = ["CASES", "FOLDER", "MODEL", "System", "document"]

FOLDER = Path(__file__).parent
MODEL = "gpt-4o"

CASES: dict[str, list[Any]] = {
    "review": [
        "returns shipping payment privacy warranty support accounts gifts".split(),
    ],
    "vote": ["A train leaves at 9:40 and is 25 minutes late. It arrives when?", 10],
    "digest": [
        [
            "returns shipping gifts".split(),
            "payment privacy accounts".split(),
            "warranty support rentals".split(),
        ]
    ],
    "thoughts": ["Make 24 of 4, 9, 10 and 13."],
    "research": ["What does it cost us when a customer changes his mind?"],
    "debate": ["Should rented bicycles be insured by us?"],
    "translate": [
        [
            "Goods come back within 30 days.",
            "A parcel over 20 kg comes by freight.",
            "Vouchers are good for three years.",
            "Whoever asks gets a copy of it all.",
            "Wear of tyres is no defect.",
            "We answer within one working day.",
        ]
    ],
    "extract": [
        [
            "North wants 12 lamps at 9.50 each.",
            "To the shop: 3 frames for south, 120 each, soon please.",
            "West, again: 40 tubes, 4.20.",
            "2 saddles for north, the leather ones, 61 each.",
            "South: 18 chains, 14.90 each.",
            "9 pumps, 22.00 each, west.",
            "North: one repair stand, 180.",
        ]
    ],
    "router": [
        [
            "When does my parcel leave?",
            "May I pay in two parts?",
            "Who designed the new frame?",
            "How do I send back a lamp?",
            "Is a voucher paid out?",
            "What is freight?",
        ]
    ],
    "article": ["Why old bicycles are worth repairing"],
}
"""The arguments of each program, by its name; documents are named without their ending."""


class System(StrEnum):
    REVIEWER = "Say what is unclear in a text."
    FINDINGS = "Order findings by their weight."
    SAMPLE = "Solve the problem step by step."
    SUMMARISER = "Summarise in one sentence."
    THINKER = "Give one next thought."
    SCORER = "Give 0 to 100 points to the last thought."
    SOLVER = "Solve the problem by the thoughts given."
    PLANNER = "Split a question into what has to be looked up."
    RESEARCHER = "Answer by the documents: read one before you answer."
    REPORT = "Write a report from notes."
    FRIEND = "Argue for it."
    SCEPTIC = "Argue against it."
    BUILDER = "Argue from what it takes to build it."
    JUDGE = "Judge arguments, not opinions."
    TRANSLATOR = "Translate into German."
    CHECKER = "Does the translation say the same?"
    READER = "Copy what the order says."
    SUMS = "Write one sentence about the sums."
    ROUTER = "Which desk knows this?"
    CLERK = "Answer questions about orders by the text."
    ACCOUNTANT = "Answer questions about money by the text."
    LETTER = "Write one letter from the answers."
    OUTLINE = "Outline an article."
    AUTHOR = "Write the article of this outline."
    ILLUSTRATOR = "Describe a picture for this outline."
    SHORTER = "Make the text shorter."
    FACTS = "List the facts that need a source."
    SPELLING = "Correct spelling."
    TITLE = "Find a title."


def document(name: str) -> str:
    return (FOLDER / "documents" / f"{name}.txt").read_text(encoding="utf-8")
