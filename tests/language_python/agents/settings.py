# All settings of an agent, beside one another or under one another.
# reply: fine
from vegakit import Agent, program, vega

Full = Agent(
    "Full",
    model="anthropic:claude-sonnet-4-5",
    system="You are careful.",
    temperature=0.2,
    max_tokens=800,
    max_steps=8,
    budget="$0.50",
    priority="high",
    retry=vega.retry(
        max_attempts=3,
        backoff=vega.exponential("100ms", 2.0, "5s"),
        on=["rate_limit", "overloaded", "timeout"],
    ),
    breaker=vega.circuit_breaker(threshold=5, reset_after="30s"),
    rate=vega.rate_limit(requests=60, per="1m", burst=10, strategy="queue"),
)


@program
def main() -> None:
    print(Full("hi"))  # expect: fine
