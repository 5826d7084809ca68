"""How programs look after formatting."""

from pathlib import Path

import pytest

from vegakit.lang import format_source

DATA = sorted((Path(__file__).parent / "data").glob("*.vega"))
FORMATTED = Path(__file__).parent / "data" / "formatted"


def check(before: str, after: str) -> None:
    assert format_source(before) == after
    assert format_source(after) == after


def test_a_crowded_program_is_laid_out() -> None:
    """Blanks, levels and line breaks."""
    check(
        "fn f(a:int,b :[str;3])->int may[fs::read]{let x=a+-1*( 2-b [0] );if x<-1{return x;}\n"
        "else{x=[ 1,2 ];}\nreturn{};}\n",
        "fn f(a: int, b: [str; 3]) -> int may [fs::read] {\n"
        "    let x = a + -1 * (2 - b[0]);\n"
        "    if x <- 1 { return x; } else { x = [1, 2]; }\n"
        "    return {};\n"
        "}\n",
    )


def test_blocks_on_one_line_stay_there() -> None:
    """And what stands on several lines gets a line for each statement."""
    check("if a{b();c();}", "if a { b(); c(); }\n")
    check("if a{\nb();c();}", "if a {\n    b();\n    c();\n}\n")
    check("if a {\n}\nelse {\n  b(); }", "if a {} else {\n    b();\n}\n")


def test_settings_on_one_line_stand_apart() -> None:
    """By two blanks; `per` belongs to what stands before it."""
    check(
        'agent A{model fast system "x"\nrate_limit{requests 60 per 1m burst 10}}',
        'agent A {\n    model fast  system "x"\n'
        "    rate_limit { requests 60 per 1m  burst 10 }\n}\n",
    )
    check("type T{a:str,b:int c:bool}", "type T { a: str, b: int  c: bool }\n")
    check("supervisor S{window 1m children[A,B]}", "supervisor S { window 1m  children [A, B] }\n")


def test_a_head_over_lines_is_indented_and_its_brace_is_not() -> None:
    """As tools are written."""
    check(
        'agent A {\ntool t(p: str) -> str\n"Reads."\ncapabilities [fs::read] allowed_paths ["a"]\n'
        "{ return p; }\n}",
        "agent A {\n"
        "    tool t(p: str) -> str\n"
        '        "Reads."\n'
        '        capabilities [fs::read]  allowed_paths ["a"]\n'
        "    { return p; }\n"
        "}\n",
    )


def test_a_brace_on_a_line_of_its_own_is_joined_to_a_short_head() -> None:
    """One style for blocks."""
    check("fn f()\n{\nreturn;\n}", "fn f() {\n    return;\n}\n")


def test_lines_that_go_on_are_indented() -> None:
    """By one level, and brackets by theirs."""
    check("let a = b +\nc;", "let a = b +\n    c;\n")
    check("f(\na,\n[\nb\n]\n);", "f(\n    a,\n    [\n        b\n    ]\n);\n")
    check(
        "let c = spawn C supervised by {\nstrategy restart\nwindow 60s\n};",
        "let c = spawn C supervised by {\n    strategy restart\n    window 60s\n};\n",
    )


def test_declarations_of_several_lines_have_room() -> None:
    """One blank line before and after, comments with what they belong to; never two."""
    check(
        'use "a"\nuse "b"\n// of f\nfn f() {\nreturn;\n}\nlet a = 1;\n\n\n\nlet b = 2;\n',
        'use "a"\nuse "b"\n\n// of f\nfn f() {\n    return;\n}\n\nlet a = 1;\n\nlet b = 2;\n',
    )
    check("if a {\n\n\nb();\n\n}", "if a {\n    b();\n}\n")


def test_comments_stay_where_they_are() -> None:
    """Behind lines that follow each other they stand in one column."""
    check(
        "let a = 1; // one\nlet bcd = 2;    // two\n\n// alone\nlet e = /* in */ 3;",
        "let a = 1;    // one\nlet bcd = 2;  // two\n\n// alone\nlet e = /* in */ 3;\n",
    )
    check("if a { // why\nb();\n// last\n}", "if a {  // why\n    b();\n    // last\n}\n")


def test_strings_stay_as_they_are_written() -> None:
    """Also what is inserted in them, and lines in three quotes."""
    check('x = "a{ b+c }"  ;', 'x = "a{ b+c }";\n')
    check('x = """\n  a\n """;', 'x = """\n  a\n """;\n')


def test_minus_and_soft_keywords() -> None:
    """A sign clings to its number; words that take a value are not called."""
    check("agent A { temperature -1 }", "agent A { temperature -1 }\n")
    check("x = a <- b timeout(1s) budget(c);", "x = a <- b timeout (1s) budget (c);\n")
    check("x = timeout(1) - tools[0];", "x = timeout(1) - tools[0];\n")
    check("session budget(a){}", "session budget (a) {}\n")
    check("return -1 - -2;", "return -1 - -2;\n")


def test_a_soft_keyword_may_be_the_last_word() -> None:
    """Nothing follows it to be looked at."""
    for word in ("children", "timeout", "may", "per"):
        check(f'use "a"  as  {word}', f'use "a" as {word}\n')


def test_a_period_clings_to_its_amount() -> None:
    """Apart, the slash would divide."""
    check("session budget $5/day{}", "session budget $5/day {}\n")
    check("x = $5/day;", "x = $5 / day;\n")


def test_a_header_below_a_comment_begins_its_line() -> None:
    """It continues nothing."""
    check(
        "// c\nprogram  may [a::b]  allowed_paths []", "// c\nprogram may [a::b] allowed_paths []\n"
    )


def test_a_monitor_names_its_reason_behind_the_brace() -> None:
    """On the line of the brace."""
    check(
        "monitor ( a ) {\nreason\n-> print(reason);\nb();}",
        "monitor(a) { reason ->\n    print(reason);\n    b();\n}\n",
    )


def test_a_comment_stays_with_what_it_stands_above() -> None:
    """At the top of a file, too."""
    kept = "// one\n// two\nfn f() {\n    print(1);\n}\n\n// three\nfn g() {\n    f();\n}\n"
    check(kept, kept)


def test_a_faulty_program_is_given_back_as_it_came() -> None:
    """Nothing is guessed."""
    assert format_source("let  a =;") == "let  a =;"
    assert format_source("") == ""
    assert format_source("// only\n\n") == "// only\n"


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.stem)
def test_the_examples_look_like_this(path: Path) -> None:
    """Written beside them, to be looked at."""
    after = format_source(path.read_text(encoding="utf-8"))
    assert after == (FORMATTED / path.name).read_text(encoding="utf-8")
