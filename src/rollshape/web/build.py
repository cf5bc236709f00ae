"""Build the static planner: the page, the Python that it runs, and Pyodide, in one folder that any server can serve.

Run: python -m rollshape.web.build OUT --pyodide DIR (the unpacked npm package `pyodide`); `make page` does all of it.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import rollshape
from rollshape.files import write_bytes

STATIC = Path(__file__).parent / "static"
SOURCE = Path(rollshape.__file__).parent
MODULES = ("__init__.py", "errors.py", "files.py", "formatting.py", "typed.py", "processes.py")
WEB_MODULES = ("__init__.py", "api.py", "planner.py")
WORKER = "offline.js"  # the service worker; it is built from the others
SERVER_ONLY = ("runs.js", "studies.js", "probes.js", "chart.js")  # views of the local server
PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same files give the same archive


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the static planner.")
    parser.add_argument("out", type=Path, help="folder of the page")
    parser.add_argument("--pyodide", type=Path, required=True, help="folder of the npm package pyodide")
    arguments = parser.parse_args()
    build(arguments.out, arguments.pyodide)
    print(f"{arguments.out}: serve it with any web server, for example python -m http.server -d {arguments.out}")


def build(out: Path, pyodide: Path) -> None:
    """Write the page to a folder; files of an earlier build are replaced."""
    (out / "pyodide").mkdir(parents=True, exist_ok=True)
    names = [path.name for path in sorted(STATIC.iterdir()) if path.is_file()]
    names = [name for name in names if name not in (*SERVER_ONLY, WORKER)]
    for name in names:
        write_bytes(out / name, (STATIC / name).read_bytes())
    write_bytes(out / "rollshape.zip", bundle())
    for name in PYODIDE:
        shutil.copyfile(pyodide / name, out / "pyodide" / name)
    write_bytes(out / WORKER, _service_worker(out, [*names, "rollshape.zip", *(f"pyodide/{name}" for name in PYODIDE)]))


def _service_worker(out: Path, names: list[str]) -> bytes:
    """Return the service worker with the names of the page's files and a hash of them: it changes if one does."""
    version = hashlib.sha256()
    for name in names:
        version.update(hashlib.sha256((out / name).read_bytes()).digest())
    files = {"version": version.hexdigest()[:16], "files": ["./", *names]}
    return f"const BUILD = {json.dumps(files)};\n".encode() + (STATIC / WORKER).read_bytes()


def bundle() -> bytes:
    """Return a zip archive of the Python that the page runs: geometry, the page's functions, and ruamel.yaml."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(_files()):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _files() -> Iterator[tuple[str, Path]]:
    """Yield (name in the archive, file)."""
    for path in [*(SOURCE / name for name in MODULES), *(SOURCE / "web" / name for name in WEB_MODULES)]:
        yield f"rollshape/{path.relative_to(SOURCE).as_posix()}", path
    for path in (SOURCE / "geometry").rglob("*"):
        if path.suffix in (".py", ".json"):
            yield f"rollshape/{path.relative_to(SOURCE).as_posix()}", path
    spec = find_spec("ruamel.yaml")
    assert spec is not None
    assert spec.origin is not None
    yaml = Path(spec.origin).parent
    for path in yaml.rglob("*.py"):
        yield f"ruamel/yaml/{path.relative_to(yaml).as_posix()}", path


if __name__ == "__main__":
    main()
