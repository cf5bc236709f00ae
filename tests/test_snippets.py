"""Commands and snippets of the documentation run: as printed, with a smaller budget, or not for a stated reason."""

import ast
import contextlib
import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from ruamel.yaml import YAML
from tests.integrations.log_files import event, event_file, scalar, write_cleanrl
from tests.test_docs import PAGES, shown_commands
from tests.web.serving import served

from rollshape.cli import main
from rollshape.studies.study_file import study_from_dict
from rollshape.studies.trials import expand

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = ("commands.md", "python-reference.md")  # from the code, when the site is built
SITE = [path for path in sorted(DOCS.glob("*.md")) if path.name not in GENERATED] + [ROOT / "README.md"]
STARTS = ("rollshape ", "make ", "pip ", "python ", "for ")

# Commands that run as they are printed, in the folder of `workspace`.
QUICK = (
    "rollshape plan --algo grpo --num-prompts 32 --num-generations 8 --gpus 4 --num-minibatches 2 --dataset-size 7473",
    "rollshape translate CONFIG --from sb3 --to cleanrl",
    "rollshape patch CONFIG --dialect sb3 --num-envs 16",
    "rollshape rescale CONFIG --dialect sb3 --num-envs 64",
    "rollshape rescale ppo.yml --dialect sb3 --num-envs 4",
    "rollshape rescale agent.yaml --dialect isaaclab --from-num-envs 4096 --num-envs 1024 --policy sqrt-lr --write",
    "rollshape check-env mymodule:MyEnv",
    "rollshape diagnose logs/PPO_1",
    "rollshape diagnose logs/PPO_1 --env CartPole-v1 --num-envs 8 --num-steps 2048 --minibatch-size 64 --num-epochs 10",
    "rollshape import runs/CartPole-v1__ppo__1 --out imported/cleanrl-1",
    "rollshape report runs/",
)
_RACE = "--shapes 4x8 8x8 --num-epochs 1 --hidden-sizes 8 --num-minibatches 1 --budget 0.4 --seeds 2 --to sb3"
_TRAIN = (
    "rollshape train --env CartPole-v1 --num-envs 64 --num-steps 32 --total-timesteps 100_000 --keep-checkpoints 10"
)
_PROBE = "rollshape probe runs/CartPole-v1_ppo_64x32_seed0 --checkpoint 20"
# Expensive commands → what runs instead; nothing if another one begins with it.
SLOW = {
    _TRAIN: "",
    _PROBE: f"{_TRAIN} && {_PROBE} --num-envs 32 --num-batches 8 --parts none",
    "for seed in 0 1 2 3 4; do rollshape train --env CartPole-v1 --num-envs 64 --num-steps 32 --total-timesteps "
    "300_000 --learning-rate 1e-3 --seed $seed; done": "rollshape train --env CartPole-v1 --num-envs 64 --num-steps 32 "
    "--total-timesteps 4_096 --learning-rate 1e-3 --seed 4",
    "rollshape advise --env CartPole-v1 --total-timesteps 100_000 --to sb3": "rollshape advise --env CartPole-v1 "
    f"--total-timesteps 2560 {_RACE}",
    "rollshape advise --env Acrobot-v1 --total-timesteps 1e6 --to sb3": "rollshape advise --env Acrobot-v1 "
    f"--total-timesteps 2560 {_RACE}",
    "rollshape study demo --out studies/demo": "rollshape study demo --out studies/demo --seeds 1 --no-probes",
}
# Commands that do not run here, and why. The flags of ours are still checked.
NOT_RUN = {
    "make demo": "creates .venv; it runs `rollshape study demo`, which is in SLOW",
    "pip install -e '.[ui]'": "installs packages",
    "pip install 'rollshape[brax]'": "installs packages",
    "pip install 'rollshape[playground]'": "installs packages",
    "python benchmarks/planted.py train --python .venv-peers/bin/python --out runs/planted --libraries sb3 cleanrl "
    "rsl_rl skrl --seeds 3 4": "trains for half an hour",
    "python benchmarks/planted.py score --out runs/planted --json planted.json": "reads what that trained",
    "rollshape ui": "a server that does not end: tests/web",
    "rollshape ui [DIR] [--port P] [--no-browser]": "a server that does not end: tests/web",
    "rollshape train --env brax:inverted_pendulum --num-envs 64 --num-steps 32": "tests/envs/test_brax_env.py",
    "rollshape train --env playground:CartpoleBalance --env-kwargs max_steps=500": "tests/envs/test_brax_env.py",
    "rollshape advise --env envpool:HalfCheetah-v5 --total-timesteps 2e6 --shapes 8x256 64x32 256x16 "
    "--normalize-observations": "an extra that needs MuJoCo: tests/envs/test_envpool_env.py",
}  # fmt: skip
# Python snippets of pages that need names of the reader's script or a smaller budget: page → (names, replacements).
_AGENT = {"horizon_length": 16, "minibatch_size": 8192, "mini_epochs": 4}
PYTHON: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "python.md": ({}, {}),
    "environments.md": ({}, {}),
    "configs.md": ({"agent_cfg": _AGENT, "env": SimpleNamespace(num_envs=16)}, {}),
    "training.md": ({}, {"num_steps=32, network": "num_steps=32, total_timesteps=4_096, network"}),
    "README.md": ({}, {"=100_000": "=4_096", "probe(run)": "probe(run, num_envs=32, num_batches=8, parts='none')"}),
}
# Pages whose snippets are parts of a script of another library; tests/peers runs the whole scripts in examples/.
PARTS_OF_SCRIPTS = {"integrations.md": "examples/", "README.md": "examples/sb3_callback.py"}


def blocks(path: Path) -> Iterator[str]:
    """Yield the fenced blocks without a language, and the indented ones."""
    fence, text = re.compile(r"^```(\w*)\n(.*?)^```", flags=re.M | re.S), path.read_text()
    yield from (body for language, body in fence.findall(text) if not language)
    rest = fence.sub("", text)
    yield from re.findall(r"(?<=\n\n)((?:    \S.*\n(?:\s*\n)?)+)", rest)


def commands(path: Path) -> Iterator[str]:
    """Yield the commands of a page without their comments."""
    for block in blocks(path):
        for line in block.splitlines():
            command = re.split(r"\s{3,}|\s{2,}#", line.strip().removeprefix("$ "))[0]
            if command.startswith(STARTS):
                yield command


def test_every_command_of_the_site_runs_or_has_a_reason() -> None:
    printed = {command for path in SITE for command in commands(path)}
    elsewhere = {command for page in PAGES for command, _ in shown_commands(page)}
    known = {*QUICK, *SLOW, *NOT_RUN}
    assert printed - elsewhere - known == set(), "add it to QUICK or SLOW, or to NOT_RUN with the reason"
    assert known - printed == set(), "no page has this command any more"
    assert len(known) == len(QUICK) + len(SLOW) + len(NOT_RUN)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the commands name: configs, logs of SB3 and CleanRL, a module."""
    for name, source in (("CONFIG", "sb3.yaml"), ("ppo.yml", "sb3.yaml"), ("agent.yaml", "rl_games_ppo_cfg.yaml")):
        shutil.copyfile(ROOT / "examples" / source, tmp_path / name)
    steps = range(16_384, 16_384 * 9, 16_384)
    rows = [
        event(step, 1000.0 + step, scalar("rollout/ep_rew_mean", step / 1e4), scalar("time/fps", 9)) for step in steps
    ]
    (tmp_path / "logs" / "PPO_1").mkdir(parents=True)
    (tmp_path / "logs" / "PPO_1" / "events.out.tfevents.1").write_bytes(event_file(rows))
    (tmp_path / "logs" / "PPO_1" / "config.yaml").write_text(
        "n_envs: 8\nn_steps: 2048\nbatch_size: 64\nn_epochs: 10\nn_timesteps: 131072\n"
    )
    write_cleanrl(tmp_path / "runs" / "CartPole-v1__ppo__1")
    (tmp_path / "mymodule.py").write_text(
        "from gymnasium.envs.classic_control import CartPoleEnv\n\n\ndef MyEnv():\n    return CartPoleEnv()\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def run(commands: str) -> None:
    for command in commands.split(" && "):
        assert main(shlex.split(command)[1:]) == 0, command


@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize("command", QUICK)
def test_commands(command: str) -> None:
    run(command)


@pytest.mark.slow
@pytest.mark.usefixtures("workspace")
@pytest.mark.parametrize("command", [command for command, instead in SLOW.items() if instead])
def test_expensive_commands(command: str) -> None:
    run(SLOW[command])


@pytest.mark.parametrize("command", [command for command in NOT_RUN if command.startswith("rollshape ")])
def test_flags_of_commands_that_do_not_run(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with contextlib.suppress(SystemExit):
        main([command.split()[1], "--help"])
    helped = capsys.readouterr().out
    for flag in re.findall(r"--[a-z-]+", command):
        assert flag in helped


@pytest.mark.parametrize("page", PYTHON)
def test_python_snippets(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snippets of a page are executed one after the other, as in a notebook."""
    path = ROOT / page if page == "README.md" else DOCS / page
    names, replacements = PYTHON[page]
    text = path.read_text()
    for old, new in replacements.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__", **names}
    snippets = [each for each in re.finditer(r"```python\n(.*?)```", text, flags=re.S) if not _is_part(page, each[1])]
    assert snippets
    for snippet in snippets:
        first_line = text[: snippet.start(1)].count("\n")
        exec(compile("\n" * first_line + snippet[1], str(path), "exec"), namespace)
    if "train(" in text:
        assert list(tmp_path.rglob("run.json"))


def _is_part(page: str, snippet: str) -> bool:
    return page in PARTS_OF_SCRIPTS and "rollshape.integrations" in snippet


def test_snippets_of_other_libraries_are_in_the_examples() -> None:
    """What they import exists, and the example that tests/peers trains imports it too."""
    examples = "\n".join(path.read_text() for path in (ROOT / "examples").glob("*.py"))
    pages = [ROOT / page if page == "README.md" else DOCS / page for page in PARTS_OF_SCRIPTS]
    imports = {
        line for page in pages for line in re.findall(r"^from rollshape\.integrations.*$", page.read_text(), re.M)
    }
    assert len(imports) == 5
    for line in imports:
        assert line in examples
        module, name = line.removeprefix("from ").split(" import ")
        source = ast.parse((ROOT / "src" / f"{module.replace('.', '/')}.py").read_text())
        assert name in {getattr(node, "name", None) for node in source.body}


def test_all_python_snippets_are_known() -> None:
    pages = {path.name for path in SITE if "```python" in path.read_text()}
    assert pages == PYTHON.keys() | PARTS_OF_SCRIPTS.keys()


def test_the_study_file_of_the_documentation_is_legal() -> None:
    [text] = re.findall(r"```yaml\n(.*?)```", (DOCS / "studies.md").read_text(), flags=re.S)
    study = expand(study_from_dict(YAML(typ="safe").load(text), "documented"))
    assert not study.illegal
    assert len(study.trials) == 3 * 20


def test_the_requests_of_the_documentation_are_answered(tmp_path: Path) -> None:
    [block] = [block for block in blocks(DOCS / "page.md") if "GET " in block]
    config = (ROOT / "examples" / "sb3.yaml").read_text()
    with served(tmp_path) as server:
        for path in re.findall(r"GET +(/\S+)(?:, (/\S+))?", block):
            for address in filter(None, path):
                assert server.ask(quote(address.rstrip(","), safe="/?&=")).status == 200, address
        for address, body in re.findall(r"POST +(/\S+) +(\{.*\})", block):
            values = json.loads(body) | {"text": config}
            answer = server.ask(address, "POST", json.dumps(values).encode(), Content_Type="application/json")
            assert answer.status == 200, answer.body


HOSTS = {"arxiv.org", "doi.org", "github.com", "openreview.net", "proceedings.mlr.press"}


def test_links_to_other_sites_are_well_formed() -> None:
    """No network is needed: https, a host that is expected, no space, and no dot or bracket at the end."""
    for path in SITE:
        for link in re.findall(r"(?:https?:|www\.)[^\s)>\]\"'`]*", path.read_text()):
            address = urlsplit(link)
            assert address.scheme == "https", (path.name, link)
            assert address.hostname in HOSTS, (path.name, link)
            assert not link.endswith((".", ",", ";")), (path.name, link)


def test_links_to_files() -> None:
    for path in SITE:
        for link in re.findall(r"\]\((?!https?:)([^)#\s]+)", path.read_text()):
            assert (path.parent / link).exists() or link in GENERATED, (path.name, link)
