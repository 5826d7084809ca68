"""Every rule holds on our tree, and finds its fault where one is planted."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.architecture import rules

Rule = Callable[[Path], Iterator[str]]

RULES: list[Rule] = [
    rules.layers,
    rules.rooms_are_imported_whole,
    rules.nobody_imports_the_root,
    rules.pure_rooms_do_no_io,
    rules.only_config_reads_the_environment,
    rules.one_place_starts_git,
    rules.only_the_look_writes_escape_codes,
    rules.only_one_place_writes_files,
    rules.only_safe_streams_are_written,
    rules.docstrings_say_pure_or_host,
    rules.public_names_are_listed,
    rules.rooms_offer_what_they_list,
    rules.docstrings_are_sentences,
    rules.public_names_have_docstrings,
    rules.modules_are_named,
    rules.importing_has_no_effects,
    rules.imports_without_unix,
]

SOUND = {
    "__init__.py": "__all__ = []\n",
    "errors.py": (
        '"""Errors (base, pure)."""\n__all__ = ["Oops"]\n'
        'class Oops(Exception):\n    """It failed."""\n'
    ),
    "policy/__init__.py": '"""Rules (pure)."""\nfrom vegakit.policy.a import f\n__all__ = ["f"]\n',
    "policy/a.py": (
        "from vegakit.errors import Oops\n__all__ = ['f']\n"
        "def f():\n    '''Fail.'''\n    raise Oops\n"
    ),
    "cli/__init__.py": '"""Cli (edge, host)."""\nfrom vegakit.policy import f\n__all__ = ["f"]\n',
}

FAULTS: list[tuple[Rule, str, str]] = [
    (rules.layers, "policy/a.py", "from vegakit.cli import f as g\n"),
    (rules.layers, "policy/a.py", "def late():\n    from ..cli import f as g\n"),
    (rules.layers, "errors.py", "import vegakit.policy\n"),
    (rules.layers, "cellar/__init__.py", "__all__ = []\n"),
    (rules.layers, "cli/__init__.py", "import vegakit.testing\n"),
    (rules.rooms_are_imported_whole, "cli/__init__.py", "from vegakit.policy.a import f as g\n"),
    (rules.nobody_imports_the_root, "cli/__init__.py", "import vegakit\n"),
    (rules.nobody_imports_the_root, "cli/__init__.py", "from vegakit import Dollars\n"),
    (rules.nobody_imports_the_root, "errors.py", "from . import dollars\n"),
    (rules.pure_rooms_do_no_io, "policy/a.py", "import asyncio\n"),
    (rules.pure_rooms_do_no_io, "policy/a.py", "from time import monotonic\n"),
    (rules.pure_rooms_do_no_io, "policy/a.py", "import os.path\n"),
    (rules.pure_rooms_do_no_io, "policy/a.py", "import random\n"),
    (rules.pure_rooms_do_no_io, "policy/a.py", "import logging\n"),
    (rules.pure_rooms_do_no_io, "policy/a.py", "async def g(): ...\n"),
    (rules.pure_rooms_do_no_io, "policy/a.py", "def g():\n    print('x')\n"),
    (rules.pure_rooms_do_no_io, "policy/a.py", "def g():\n    return datetime.now()\n"),
    (rules.only_config_reads_the_environment, "cli/__init__.py", "import os\nos.environ['A']\n"),
    (rules.one_place_starts_git, "cli/__init__.py", "COMMAND = ['git', 'log']\n"),
    (rules.one_place_starts_git, "policy/a.py", "f(*('git', 'log'))\n"),
    (rules.only_the_look_writes_escape_codes, "cli/__init__.py", "RED = '\\x1b[31m'\n"),
    (rules.only_the_look_writes_escape_codes, "policy/a.py", "PLAIN = f'\\033[0m{1}'\n"),
    (rules.only_the_look_writes_escape_codes, "cli/__init__.py", "WIPE = b'\\x1b[K'\n"),
    *(
        (rules.only_one_place_writes_files, "cli/__init__.py", f"def g(path):\n    {line}\n")
        for line in (
            "path.write_text('x')",
            "open(path, 'w').close()",
            "path.open(mode='xb')",
            "os.open(path, os.O_WRONLY | os.O_CREAT)",
            "os.replace('x', path)",
        )
    ),
    (rules.only_safe_streams_are_written, "tools/__init__.py", "def g():\n    print('x')\n"),
    *(
        (rules.only_safe_streams_are_written, "cli/__init__.py", f"def g():\n    {line}\n")
        for line in ("sys.stdout.buffer.write(b'x')", "sys.__stderr__.write('x')", "os.write(1, b)")
    ),
    (rules.docstrings_say_pure_or_host, "cellar/__init__.py", '"""A cellar."""\n'),
    (rules.docstrings_say_pure_or_host, "lang/__init__.py", '"""A language (host)."""\n'),
    (rules.docstrings_say_pure_or_host, "kernel/__init__.py", '"""Services (pure)."""\n'),
    (rules.public_names_are_listed, "errors.py", "class Unlisted: ...\n"),
    (rules.public_names_are_listed, "cellar.py", "x = 1\n"),
    (rules.rooms_offer_what_they_list, "cli/__init__.py", "from vegakit.errors import Oops\n"),
    (rules.docstrings_are_sentences, "policy/a.py", "def g():\n    '''What it is.'''\n"),
    (rules.docstrings_are_sentences, "policy/a.py", "class A:\n    '''Of a link: it is one.'''\n"),
    (rules.docstrings_are_sentences, "lang/b.py", "'''How it goes.'''\n"),
    (rules.public_names_have_docstrings, "policy/a.py", "def g(): ...\n"),
    (rules.public_names_have_docstrings, "lang/a.py", "class Bare: ...\n"),
    (
        rules.public_names_have_docstrings,
        "errors.py",
        "class A(Oops):\n    '''An A.'''\n    def b(self): ...\n",
    ),
    (rules.modules_are_named, "policy/utils.py", "__all__ = []\n"),
    (rules.importing_has_no_effects, "policy/a.py", "open('planted', 'w').close()\n"),
    (rules.importing_has_no_effects, "policy/a.py", "print('hello')\n"),
    (rules.importing_has_no_effects, "policy/a.py", "import socket\nsocket.socket().close()\n"),
    (rules.importing_has_no_effects, "policy/a.py", "import os\nos.mkdir('planted')\n"),
    (rules.imports_without_unix, "policy/a.py", "import fcntl\n"),
    (rules.imports_without_unix, "cli/__init__.py", "from pwd import getpwuid\n"),
]


@pytest.fixture
def sound_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    src = tmp_path / "vegakit"
    for name, text in SOUND.items():
        plant(src, name, text)
    monkeypatch.chdir(tmp_path)
    return src


def plant(src: Path, name: str, text: str) -> None:
    path = src / name
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text() if path.exists() else ""
    path.write_text(before + text)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_our_tree_keeps(rule: Rule) -> None:
    """The rule finds nothing in src."""
    assert list(rule(rules.SRC)) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_sound_tree_keeps(rule: Rule, sound_tree: Path) -> None:
    """The rule does not cry wolf, so that a planted fault is what it finds below."""
    assert list(rule(sound_tree)) == []


@pytest.mark.parametrize(
    ("rule", "name", "text"),
    FAULTS,
    ids=[f"{r.__name__}-{i}" for i, (r, _, _) in enumerate(FAULTS)],
)
def test_a_planted_fault_is_found(rule: Rule, name: str, text: str, sound_tree: Path) -> None:
    """Each rule can fail."""
    plant(sound_tree, name, text)
    assert list(rule(sound_tree))


def test_every_rule_has_a_planted_fault() -> None:
    """A rule nobody has seen fail proves nothing."""
    assert {rule for rule, _, _ in FAULTS} == set(RULES)
