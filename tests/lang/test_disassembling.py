"""The listing of a module: names instead of numbers, labels where jumps go, lines of source."""

from tests.vm.assembling import Code, assemble
from tests.vm.samples import SAMPLES
from vegakit.lang import INT, STR, Op, RecordOf, disassemble

LISTING = """\
module main.vega: 2 functions, 2 constants, runs main

fn main() -> any    // main.vega, 16 registers
           0  CONST            r1 "hi"                                                      line 1
           1  CALL             r0 f [r1] site:0                                             line 2
           2  CAST             r0 r0 R                                                      line 3
           3  ROUND            r2 -                                                         line 4
           4  JUMP_IF_NULL     r0 @1                                                        line 5
    @5     5  RETURN           r0                                                           line 6
       catch Timeout from 1 to 4: @5, reason in r3

fn f(r0: str) -> any    // main.vega, 16 registers
           0  HOST             r1 "file::read" [r0] site:0[r4.r5]                           line 1
           1  RETURN           r1                                                           line 2
"""


def test_a_listing_reads_well() -> None:
    """Exactly so."""
    main = Code(
        "main",
        (
            'CONST 1 #"hi"',
            "one: CALL 0 $f [1] *",
            "CAST 0 0 !R",
            "ROUND 2 -1",
            "JUMP_IF_NULL 0 @one",
            "end: RETURN 0",
        ),
        handlers=(("one", "end", "end", ("Timeout",), 3, 0),),
    )
    f = Code("f", ('HOST 1 #"file::read" [0] *[4,5]', "RETURN 1"), params=(STR,))
    listing = disassemble(assemble(main, f, types={"R": RecordOf("R", (("a", INT),))}))
    assert listing == LISTING.replace("           1  CALL", "    @1     1  CALL")


def test_every_instruction_can_be_listed() -> None:
    """By the name it has in the table."""
    listing = "".join(map(disassemble, SAMPLES.values()))
    assert all(f" {op.name} " in listing or f" {op.name}\n" in listing for op in Op)
