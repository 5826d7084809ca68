"""Forty small repositories with a task each, solved by `vega code` as a real process.

A task is one TOML file in `tasks/`, short enough to be read whole:

    kind, language       bug fix, feature, refactor or tests; python, javascript or shell
    instruction          what the agent is told
    [files]              the tree it begins with
    steps                what the model does: a list of answers, each a list of tool calls that are
                         made at once. The first key of a call is the tool, its value the path,
                         pattern or command; `fails` says that it goes wrong, as a first try may;
                         `done` is a command that tells whether a command has had its effect
    solution             the same change as a patch
    verifier             a script in the language of the task, which runs in the tree when the agent
                         is gone; it lies outside, where the agent can neither read nor change it
    [mutants]            of tests, instead of a verifier: they pass as the code is, and fail with
                         each of these changes to it

`python -m campaigns.code_tasks export FOLDER` writes all as folders that other harnesses read:
`NAME/{task.toml, instruction.md, environment/, solution/solve.sh, tests/test.sh}`.
"""
