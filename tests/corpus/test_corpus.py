"""Small configs in the form of each real file type, and the sizes that must be read from them."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from rollshape.errors import RequestError
from rollshape.geometry.dialects import resolve
from rollshape.geometry.dialects.reading import read
from rollshape.geometry.dialects.sources import load

CONFIGS = Path(__file__).parent / "configs"
# config, dialect, --key, --num-envs, (N, T, minibatches or None, minibatch size, epochs, updates)
TABLE: list[tuple[str, str, str | None, int | None, tuple[int | None, ...]]] = [
    ("isaaclab/rsl_rl_ppo_cfg.py", "isaaclab", "BlockPushPPORunnerCfg", 4096, (4096, 24, 4, 24576, 5, 1500)),
    ("isaaclab/rsl_rl_ppo_cfg.py", "RSL_RL", "BlockPushFlatPPORunnerCfg", 1024, (1024, 24, 8, 3072, 5, 300)),
    ("isaaclab/imported_base.py", "rsl-rl", None, 64, (64, 32, 8, 256, 5, 600)),
    ("legged/base_config.py", "rsl_rl", None, None, (4096, 24, 4, 24576, 5, 1500)),
    ("legged/walker_config.py", "rsl_rl", None, None, (2048, 24, 4, 12288, 5, 300)),
    ("ppo_params.py", "brax", "Trot", None, (4096, 20, 32, 2560, 4, 1260)),
    ("ppo_params.py", "brax", "brax_ppo_config.Backflip", None, (8192, 40, 32, 10240, 4, 360)),
    ("ppo_params.py", "brax", "Hopper", None, (8192, 20, 32, 5120, 4, 360)),
    ("ppo_params.py", "brax", "Anything", None, (8192, 20, 32, 5120, 4, 630)),
    ("dataclass_args.py", "cleanrl", None, None, (8, 128, 4, 256, 4, 9765)),
    ("argparse_script.py", "cleanrl", None, None, (16, 64, 4, 256, 3, 976)),
    ("purejaxrl_dict.py", "purejaxrl", None, None, (4, 128, 4, 128, 4, 976)),
    ("rllib_builder.py", "rllib", None, None, (32, 32, 8, 128, 6, None)),
    ("puffer/ocean/bricks.ini", "pufferlib", None, None, (4096, 64, 16, 16384, 1, 191)),
    ("tuned.toml", "sb3", None, None, (8, 256, 32, 64, 10, 489)),
    ("hydra/train/CrawlerPPO.yaml", "rl_games", None, None, (4096, 16, 2, 32768, 4, 500)),
    ("hydra/train/CrawlerSmallPPO.yaml", "rl_games", None, None, (512, 16, 2, 4096, 4, 200)),
    ("hydra/train/LostPPO.yaml", "rl_games", None, 2048, (2048, 16, 1, 32768, 4, 500)),
    ("hydra/config.yaml", "rl_games", None, None, (4096, 16, 2, 32768, 4, 500)),
    ("lab_run", "isaaclab", None, None, (2048, 24, 4, 12288, 5, 1000)),
    ("zoo_run", "sb3", None, None, (8, 32, 1, 256, 20, 196)),
    ("zoo.yml", "sb3", "CartPole-v1", None, (8, 32, 1, 256, 10, 3907)),
    ("text_sizes.yaml", "sb3", None, None, (8, 1000, 8, 1000, 10, 12500)),
    ("frames.json", "torchrl", None, None, (4, 512, 32, 64, 10, 489)),
    ("python ppo.py --num_envs=2048 --num-steps 16 --update_epochs=8 --num_minibatches=32 --no-track "
     "--total_timesteps=10_000_000", "ManiSkill", None, None, (2048, 16, 32, 1024, 8, 305)),
    ("CUDA_VISIBLE_DEVICES=0 torchrun --nproc_per_node=1 ff_ppo.py arch.total_num_envs=64 system.rollout_length=16 "
     "system.num_minibatches=4 system.epochs=2 arch.total_timesteps=1e6", "stoix", None, None,
     (64, 16, 4, 256, 2, 960)),
    ("puffer train puffer_bricks --vec.num-envs 8 --env.num-envs 128 --train.minibatch-size 8192", "pufferlib", None,
     None, (1024, 64, 8, 8192, 1, 153)),
]  # fmt: skip


def sizes(config: str, dialect: str, key: str | None, num_envs: int | None) -> tuple[int | None, ...]:
    path = CONFIGS / config
    source = load(str(path) if " " not in config else config, key)
    recipe = read(source.values, resolve(dialect, source.values), num_envs=num_envs, key=source.key).recipe
    return (
        recipe.num_envs, recipe.num_steps, recipe.num_minibatches, recipe.minibatch_size, recipe.num_epochs,
        recipe.num_updates,
    )  # fmt: skip


@pytest.mark.parametrize(("config", "dialect", "key", "num_envs", "expected"), TABLE)
def test_sizes(
    config: str, dialect: str, key: str | None, num_envs: int | None, expected: tuple[int | None, ...]
) -> None:
    assert sizes(config, dialect, key, num_envs) == expected


@pytest.mark.parametrize(
    ("config", "dialect", "key", "rule", "message"),
    [
        ("isaaclab/rsl_rl_ppo_cfg.py", "rsl_rl", None, "level", "BlockPushPPORunnerCfg, BlockPushFlatPPORunnerCfg"),
        ("isaaclab/missing_base.py", "rsl_rl", None, "incomplete", "num_mini_batches .* SomeRunnerCfg is defined in"),
        ("hydra/train/LostPPO.yaml", "rl_games", None, "reference", r"num_actors is \$\{....task.env.numEnvs\}"),
        ("ppo_params.py", "brax", None, "level", "levels of the file look like brax: brax_ppo_config.Hop"),
        ("ppo_params.py", "brax", "brax_ppo_config.Unknown", "level", "has no config for brax_ppo_config.Unknown"),
        ("python ppo_rgb.py --num_envs=256 --num_minibatches=8", "maniskill", None, "incomplete", "in ppo_rgb.py"),
        ("python a.py --num_envs=256 && python b.py", "maniskill", None, "file", "more than one command"),
        ("python a.py --name='x", "maniskill", None, "file", "incomplete"),
    ],
)
def test_refusals_name_the_reason(config: str, dialect: str, key: str | None, rule: str, message: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        sizes(config, dialect, key, None)
    assert caught.value.rule == rule


def model(data: Any, name: str = "data") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data if isinstance(data, bytes) else json.dumps(data))
    return stream.getvalue()


def test_a_model_of_sb3(tmp_path: Path) -> None:
    data = {
        "n_envs": 4, "n_steps": 128, "batch_size": 64, "n_epochs": 5, "_total_timesteps": 10_000, "gamma": 0.98,
        "clip_range": {":type:": "<class 'S'>", ":serialized:": "gAWV", "value": "ConstantSchedule(val=0.1)"},
        "lr_schedule": {":type:": "<class 'function'>", ":serialized:": "gAWV"},
    }  # fmt: skip
    (tmp_path / "model.zip").write_bytes(model(data))
    for place in (tmp_path / "model.zip", tmp_path):
        recipe = read(load(str(place)).values, resolve("sb3", None)).recipe
        assert (recipe.num_envs, recipe.num_steps, recipe.minibatch_size, recipe.num_epochs) == (4, 128, 64, 5)
        assert recipe.total_timesteps == 10_000
        assert recipe.hyper["clip_range"] == 0.1
        assert recipe.hyper["gamma"] == 0.98


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04 broken", "not a model"),
        (model({}, "other"), "not a model"),
        (model(b"not json"), "not a model"),
        (model(b"[1]"), "not a JSON object"),
        (model(b" " * 30_000_000), "larger than 20,000,000 bytes"),
    ],
)
def test_other_zip_files(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "model.zip").write_bytes(content)
    with pytest.raises(RequestError, match=message):
        load(str(tmp_path / "model.zip"))
