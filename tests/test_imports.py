"""Starting is fast because little is imported."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import rollshape", {"rich", "ruamel", "gymnasium", "numpy", "jax", "psutil"}),
        ("import rollshape; rollshape.plan(num_envs=16)", {"rich", "ruamel", "gymnasium", "numpy", "jax", "torch"}),
        ("from rollshape.cli import main; main(['plan', '--json'])", {"ruamel", "gymnasium", "numpy", "jax", "torch"}),
    ],
)
def test_what_is_not_needed_is_not_imported(statement: str, absent: set[str]) -> None:
    script = f"{statement}\nimport sys; print('\\n' + ' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not absent & set(done.stdout.splitlines()[-1].split())


def test_an_unknown_name_is_an_attribute_error() -> None:
    import rollshape

    with pytest.raises(AttributeError):
        _ = rollshape.plam
