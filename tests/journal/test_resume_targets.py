"""The run that a runtime resumes: named by its caller, or by `vega resume` for a Python script."""

import os
from pathlib import Path

import pytest

from vegakit.config import ResumeTarget, resume_variables, take_resume
from vegakit.host import Agent, ProcessRuns
from vegakit.ids import ProgramId
from vegakit.ports import RunRecord
from vegakit.providers import ScriptedModel
from vegakit.sdk import Runtime
from vegakit.store import open_journal


class CutOffError(Exception):
    pass


async def ask_once(path: Path, model: ScriptedModel, resume: ResumeTarget | None) -> ProgramId:
    journal = open_journal(path, shared=True)
    async with Runtime(journal=journal, resume=resume) as rt:
        await rt.ask(Agent("a", model=model), "?")
        assert rt.journaled is not None
        if resume is None:
            raise CutOffError(rt.journaled.run.program)
        return rt.journaled.run.program


async def test_a_runtime_resumes_the_run_that_its_caller_names(tmp_path: Path) -> None:
    """Two runs are unfinished. Each runtime resumes its own and buys nothing again."""
    model, runs = ScriptedModel("fine"), list[ProgramId]()
    for _ in range(2):
        with pytest.raises(CutOffError) as cut:
            await ask_once(tmp_path / "v.db", model, None)
        runs.append(cut.value.args[0])
    for run in runs:
        assert await ask_once(tmp_path / "v.db", model, ResumeTarget(run, alone=True)) == run
    assert len(model.requests) == 2


async def test_a_target_is_of_the_runtime_that_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later runtime of the process begins a new run: what the command line took is gone."""
    model = ScriptedModel("fine")
    with pytest.raises(CutOffError) as cut:
        await ask_once(tmp_path / "v.db", model, None)
    for name, value in resume_variables(ResumeTarget(cut.value.args[0], alone=True)).items():
        monkeypatch.setenv(name, value)
    target = take_resume()
    assert await ask_once(tmp_path / "v.db", model, target) == cut.value.args[0]
    with pytest.raises(CutOffError) as fresh:
        await ask_once(tmp_path / "v.db", model, None)
    assert fresh.value.args[0] != cut.value.args[0]


def test_the_variable_is_taken_once_and_by_its_own_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A child process inherits it, and is not the program."""
    target = ResumeTarget("01a1", alone=True)
    for name, value in resume_variables(target).items():
        monkeypatch.setenv(name, value)
    assert (take_resume(), take_resume()) == (target, None)
    for name, value in resume_variables(target).items():
        monkeypatch.setenv(name, value.replace(str(os.getpid()), str(os.getpid() + 1), 1))
    assert take_resume() is None


async def test_the_nth_run_of_a_program_resumes_its_nth_run(tmp_path: Path) -> None:
    """Also the runs that had ended; a run more than before is new."""
    lives = list[list[ProgramId]]()
    target: ResumeTarget | None = None
    for count in (2, 3):
        runs = ProcessRuns(target)
        lives.append([])
        for number in range(count):
            journal = open_journal(tmp_path / "v.db", shared=True)
            new = RunRecord(ProgramId(f"{len(lives)}{number}"), number, ("x",), "/")
            run = await runs.begin(journal, new)
            lives[-1].append(run.program)
            await journal.end(9)
            await journal.aclose()
        target = ResumeTarget(lives[0][0])
    assert lives == [["10", "11"], ["10", "11", "22"]]
