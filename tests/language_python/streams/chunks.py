# The pieces as they came, which together are the answer.
# reply: once upon a time
from vegakit import Agent, program

A = Agent("A", model="fast")


@program
def main() -> None:
    all_ = ""
    for chunk in A.stream("a story"):
        print(f"[{chunk}]")
        all_ += chunk
    # expect: [once]
    # expect: [ upon]
    # expect: [ a]
    # expect: [ time]
    print(all_)  # expect: once upon a time
