# A budget with a period is for all sends together; the next period has all of it again.
# reply: {"text": "one", "usage": {"input_tokens": 100, "output_tokens": 100}}
# reply: {"text": "two", "usage": {"input_tokens": 100, "output_tokens": 100}}
from vegakit import Agent, BudgetExceeded, program, vega

A = Agent("A", model="fast", max_tokens=200, budget="$0.0011/hour")


@program
def main() -> None:
    print(A("hi"))  # expect: one
    try:
        print(A("hi"))
    except BudgetExceeded:
        print("spent for this hour")  # expect: spent for this hour
    vega.process.sleep("1h")
    print(A("hi"))  # expect: two
# expect calls: 2
# expect spent: $0.0012
