"""A program of any length, for timing: what people write, over and over under new names."""

__all__ = ["program"]

_PART = """\
agent Coder%(i)d {
    model "anthropic:claude-sonnet-4-5"
    system "You write code."
    temperature 0.2
    budget $2.50
    retry { max_attempts 3  backoff exponential(100ms, 2.0, 5s)  on [rate_limit, timeout] }
    circuit_breaker { threshold 5  reset_after 30s }

    tool read_file(path: str) -> str
        "Read one file."
        capabilities [fs::read]  allowed_paths ["src/**"]
    {
        return file::read(path);
    }
}

// What is left of a sum
fn work%(i)d(xs: [int], k: int) -> int {
    let total = 0;
    for x in xs {
        if x %% 2 == 0 and x > k {
            total = total + x * k;
        } else {
            total = total - (x + 1) / 2;
        }
    }
    while total > 100 limit 50 {
        total = total - 10;
    }
    return total;
}

fn run%(i)d(names: [str]) -> str may [fs::read] {
    let c = spawn Coder%(i)d supervised by { strategy restart  max_restarts 3  window 60s };
    let r = c <- "write a parser for {names[0]}" timeout 30s budget $1.00;
    for chunk in c <~ "explain it" {
        print(chunk);
    }
    session budget $10.00 {
        parallel {
            let a = c <- "one";
            let b = c <- "two" timeout 500ms;
        }
        try {
            let z = work%(i)d([1, 2, 3, len(r)], 4);
            print("z = {z}, {r}");
        } catch BudgetExceeded {
            print("out of money");
        } catch AgentFailed(reason) {
            print(reason);
        }
    }
    return r;
}

"""


def program(lines: int) -> str:
    """At least so many lines."""
    return "".join(_PART % {"i": i} for i in range(lines // _PART.count("\n") + 1))
