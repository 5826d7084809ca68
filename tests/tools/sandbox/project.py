"""A small project as developers have them, for commands that mean no harm."""

from pathlib import Path

from tests.tools.sandbox.stage import git

_FILES = {
    "README.md": "# demo\n\nA demo of a project.\n",
    "notes.txt": "old notes\nmore\n",
    "table.txt": "a 1\nb 2\nc 3\n",
    "table.csv": "a,1\nb,2\n",
    "empty.patch": "",
    "run.sh": "#!/bin/sh\necho ran\n",
    "Makefile": "all test clean:\n\t@echo $@\n",
    "package.json": '{"name": "demo", "version": "1.0.0", "scripts":'
    ' {"test": "node -e 0", "build": "node -e 0", "lint": "node -e 0"}}\n',
    "src/app.py": "import sys\n\n\ndef main():\n    return 0  # TODO\n\n\nsys.exit(main())\n",
    "src/util.py": "def add(a, b):\n    return a + b\n",
    "src/index.js": "console.log(1)\n",
    "src/main.c": "int main(void) { return 0; }\n",
    "tests/__init__.py": "",
    "tests/test_app.py": "import unittest\n\n\nclass T(unittest.TestCase):\n"
    "    def test_one(self):\n        self.assertEqual(1, 1)\n",
    ".gitignore": "build\n",
}


def make_project(folder: Path) -> None:
    for name, content in _FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (folder / "run.sh").chmod(0o755)
    git(folder, "init", "-q")
    git(folder, "config", "user.name", "dev")
    git(folder, "config", "user.email", "dev@example.com")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
