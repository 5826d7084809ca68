"""Every Python example and every link in the documents works."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#]+)(?:#[^)]*)?\)")

EXAMPLES = [
    pytest.param(block, id=f"{page.relative_to(REPOSITORY)}-{number}")
    for page in PAGES
    for number, block in enumerate(BLOCK.findall(page.read_text()))
]


@pytest.mark.parametrize("block", EXAMPLES)
def test_an_example_runs(block: str, tmp_path: Path) -> None:
    """As it stands, in an empty directory; what it says it prints, it prints."""
    command = [sys.executable, "-W", "error", "-c", block]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    for said in re.findall(r"print\(.*#\s*(?:→|prints|->)?\s*(.+)$", block, re.MULTILINE):
        assert said.strip() in ran.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    """Within the repository."""
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []
