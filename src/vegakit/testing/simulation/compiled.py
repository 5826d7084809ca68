"""A compiled program that plays in a simulation: it does whatever a program can, as it is told."""

from functools import cache
from pathlib import Path

from vegakit.lang import check, compile_program
from vegakit.runtime import VegaProgram

__all__ = ["program"]

SOURCE = """
agent Plain { model fast }

agent Keeper {
    model fast
    memory conversation
}

agent Worker {
    model fast
    max_steps 3

    tool count(n: int) -> int "Count on." repeatable {
        process::sleep(20ms);
        return n + 1;
    }

    tool pass_on(n: int) -> str "Ask another." {
        return Plain <- "and {n}?";
    }
}

fn ask(text: str) -> str {
    try {
        return Plain <- text timeout 5s;
    } catch {
        return "nothing";
    }
}

fn spends(text: str) -> str {
    let said = "";
    session budget $0.30 {
        let later = async Plain <- text;
        said = Worker <- text budget $0.20;
        session budget $0.10 {
            said = said + ask(text);
        }
        said = said + (await later);
    } catch {
        said = said + "poor";
    }
    return said;
}

fn spawns(text: str) -> str {
    let keeper = spawn Keeper wallet $0.20 supervised by {
        strategy restart
        max_restarts 2
        window 60s
    };
    monitor(keeper) { reason -> trace::event("{reason}"); }
    let said = keeper <- text;
    return said + (keeper <- "again");
}

fn main(word: str, other: str) -> str {
    let left = "";
    let right = "";
    if word == "person" {
        return human::ask("which?", 3s);
    }
    if word == "exit" {
        process::exit(other);
    }
    if word == "boom" {
        fail(other);
    }
    parallel {
        left = spends(word);
        right = ask(other);
    }
    process::sleep(50ms);
    try {
        left = left + spawns(right);
    } catch AgentFailed {
        left = left + "failed";
    }
    for i in range(3) {
        right = right + ask("{i}");
    }
    return left + right;
}
"""


@cache
def program() -> VegaProgram:
    checked, found = check(SOURCE, "cast.vega", lambda _path: None)
    assert checked is not None, found
    return VegaProgram(compile_program(checked), Path())
