"""The Python code of the documentation runs: snippets of a page are executed one after the other, as in a notebook."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("page", ["python.md", "environments.md"])
def test_snippets(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DOCS / page).read_text()
    snippets = list(re.finditer(r"```python\n(.*?)```", text, flags=re.DOTALL))
    assert len(snippets) >= 3
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    for snippet in snippets:
        first_line = text[: snippet.start(1)].count("\n")
        exec(compile("\n" * first_line + snippet.group(1), str(DOCS / page), "exec"), namespace)
    assert list(tmp_path.rglob("run.json"))


def test_links() -> None:
    for page in ("python.md", "environments.md"):
        for link in re.findall(r"\]\((?!http)([^)#]+)\)", (DOCS / page).read_text()):
            assert (DOCS / link).exists(), link
