"""What functions, tools and agents may touch, directly and through each other."""

from vegakit.lang import EffectClass, EffectSet, check_program, conflict, manifest_of
from vegakit.lang.analysis.effects import effects_of

PROGRAM = """
program may [fs::read, fs::write] allowed_paths ["src/**"]
use mcp "github"

agent Reader {
    model "m"
    tool look(path: str) -> str "Look." capabilities [fs::read] allowed_paths ["docs/**"] {
        return file::read(path);
    }
}
agent Runner {
    model "n"
    tool test_it() -> str "Test." capabilities [process::exec] allowed_commands ["pytest"] {
        return exec("pytest");
    }
}
agent Odd { tool odd() -> str "Odd." capabilities [db::drop] { return "x"; } }
agent Far { tools [mcp "github"] }
agent Unused { }

fn add(a: int, b: int) -> int { return a + b; }
fn ask() -> str { return Reader <- "hello"; }
fn deep() -> str { return ask(); }
fn ping(n: int) -> str { if n == 0 { return deep(); } return pong(n - 1); }
fn pong(n: int) -> str { return ping(n); }
fn put() { file::write("src/a", "x"); }
fn shout() { print("x"); }
fn people() -> bool { return human::approve("go?", 1h); }
fn risky() -> str { return Runner <- "test"; }
fn odd() -> str { return Odd <- "x"; }
fn far() -> str { return Far <- "x"; }
fn handle() -> str { let p = spawn Reader; return p <- "x"; }
fn main() { ping(2); put(); risky(); }
"""


def rows() -> dict[str, EffectSet]:
    checked, found = check_program(PROGRAM, "main.vega", lambda _: None)
    assert checked is not None, found
    return effects_of(checked)


def test_classes_are_those_of_the_table() -> None:
    kinds = {name: row.class_ for name, row in rows().items()}
    assert kinds["add"] is EffectClass.PURE
    revocable = {"ask", "deep", "ping", "pong", "handle", "agent Reader", "agent Unused"}
    assert {name for name in kinds if kinds[name] is EffectClass.REVOCABLE} >= revocable
    irrevocable = {"put", "shout", "people", "risky", "odd", "far", "main", "agent Odd"}
    assert {name for name in kinds if kinds[name] is EffectClass.IRREVOCABLE} >= irrevocable


def test_what_is_reached_through_others_counts() -> None:
    """Also in a circle of functions."""
    for name in ("deep", "ping", "pong"):
        assert rows()[name].reads == {"docs/**"}
        assert rows()[name].sends == {"Reader"}


def test_an_unknown_capability_is_irrevocable() -> None:
    assert rows()["odd"].unknown == {"db::drop"}
    assert rows()["odd"].class_ is EffectClass.IRREVOCABLE


def test_a_tool_of_a_server_conflicts_with_all_but_the_pure() -> None:
    found = rows()
    assert conflict(found["far"], found["ask"])
    assert not conflict(found["far"], found["add"])


def test_reads_commute_and_writes_conflict_where_paths_touch() -> None:
    found = rows()
    assert not conflict(found["ask"], found["deep"])
    assert not conflict(found["put"], found["ask"])
    assert conflict(found["put"], EffectSet(reads=frozenset({"src/a*"})))


def test_a_spawn_is_in_the_row() -> None:
    assert rows()["handle"].spawns == {"Reader"}


def test_the_manifest_names_what_main_reaches_and_no_more() -> None:
    checked, _ = check_program(PROGRAM, "main.vega", lambda _: None)
    assert checked is not None
    manifest = manifest_of(checked)
    assert [agent.name for agent in manifest.agents] == ["Reader", "Runner"]
    assert (manifest.reads, manifest.writes) == (("docs/**",), ("src/**",))
    assert manifest.commands == ("pytest",)
