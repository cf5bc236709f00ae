"""Which algorithm is a config for: where a file names it, and which of the names a dialect plans.

A dialect says in `algorithm_keys` where its library names the algorithm, and in `algorithm_names` which algorithms it
plans. Without such a key, the algorithm follows from the name of the level, of the file, or from keys that only one
algorithm has. A config of any other algorithm is refused; one that names none is read as the dialect's algorithm, and
the notes say so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from rollshape.errors import RequestError
from rollshape.formatting import short_repr
from rollshape.geometry.algorithms import RULES
from rollshape.geometry.dialects.base import Dialect

COMMON_KEYS = ("algo", "algorithm", "alg", "algo_name", "algorithm_name")  # in the configs of any library
_SHORTEST_PART = 3  # letters of a name that is found inside another word, as in MyPPOConfig


def _fold(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _vocabulary(text: str) -> dict[str, str]:
    """Return titles by folded name; `AZ:AlphaZero` is an abbreviation with its title."""
    pairs = (word.partition(":") for word in text.split())
    return {_fold(name): title or name for name, _, title in pairs}


OFF_POLICY = _vocabulary(
    """
    DQN DDQN:Double-DQN Double-DQN Dueling-DQN QR-DQN MDQN DQN-Reg C51 Rainbow IQN R2D2 APEX Apex-DQN Apex-DDPG
    SimpleQ SlateQ Q-Learning SARSA DDPG D4PG TD3 TD3-BC TD7 FastTD3 SAC Soft-Actor-Critic Discrete-SAC FastSAC TQC
    CrossQ REDQ DroQ RLPD HER CQL IQL BC DT:Decision-Transformer ODT Decision-Transformer MARWIL CRR BCQ AWAC AWR MPO
    SPO MuZero MZ:MuZero AlphaZero AZ:AlphaZero Sampled-AZ:Sampled-AlphaZero Sampled-MZ:Sampled-MuZero EfficientZero
    Dreamer DreamerV2 DreamerV3 TD-MPC TD-MPC2 PILCO MADDPG IDDPG MASAC ISAC QMIX VDN RRD Disco103:DiscoRL
    """
)
OTHERS = _vocabulary(
    """
    PPO PPO1 PPO2 RecurrentPPO PPO-LSTM:RecurrentPPO PPO-RNN:RecurrentPPO Rec-PPO:RecurrentPPO MaskablePPO PPO-EWMA
    PPO-Penalty PPO-Async APPO DDPPO IPPO MAPPO HAPPO PPG RPO DPO A2C A2C-Discrete A2C-Continuous A3C ACKTR ACER TRPO
    V-MPO IMPALA REINFORCE VPG PG PQN ARS ES OpenES CEM GRPO RLOO DAPO GAIL AIRL AMP AMP-Continuous:AMP RND
    Distillation Expert-Iteration
    """
)
VOCABULARY = OFF_POLICY | OTHERS
_ORDINARY_WORDS = frozenset({"es", "pg", "bc", "dt", "az", "mz", "her", "amp", "dpo", "spo"})  # in names of files
MARKERS = {  # keys that only one algorithm has
    "use_rms_prop": "a2c", "rms_prop_eps": "a2c",
    "cg_max_steps": "trpo", "cg_damping": "trpo", "n_critic_updates": "trpo", "sub_sampling_factor": "trpo",
    "n_delta": "ars", "n_top": "ars", "delta_std": "ars",
    "vtrace_clip_rho_threshold": "impala", "clip_rho_threshold": "impala", "vtrace_lambda": "impala",
}  # fmt: skip
_OFF_POLICY_KEYS = frozenset(
    {
        "buffer_size", "replay_buffer_size", "learning_starts", "train_freq", "train_frequency", "gradient_steps",
        "num_seed_steps", "num_warmup_steps", "fill_buffer", "target_update_freq", "target_update_interval",
        "target_network_frequency", "exploration_fraction", "exploration_final_eps", "min_replay_size",
        "max_replay_size", "grad_updates_per_step", "buffer_batch_size",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NamedAlgorithm:
    """The algorithm of a config, and where the config says so; the name is empty if it is not a known one."""

    name: str  # as in VOCABULARY
    where: str
    is_inferred: bool = False  # from a file name or a marker, not from a key that names the algorithm

    @property
    def title(self) -> str:
        return VOCABULARY[self.name]


def find_algorithm(
    values: Mapping[str, Any], level: tuple[str, ...], dialect: Dialect, file: str | None
) -> NamedAlgorithm | None:
    """Return the algorithm that a config names, or None if it names none; a level's name has priority."""
    for part in reversed(level):
        if _fold(part) in VOCABULARY:
            return NamedAlgorithm(_fold(part), f"the level {part}")
    levels = list(_enclosing(values, level))
    for keys, is_certain in ((dialect.algorithm_keys, True), ((*COMMON_KEYS, *dialect.algorithm_hints), False)):
        for text, key in ((_text_at(mapping, key), key) for mapping in levels for key in keys):
            names = _recognize(text, dialect, is_class=is_certain)
            if names or (text and is_certain):
                return NamedAlgorithm(names[0] if names else "", f"{key}: {short_repr(text)[1:-1]}")
    inferred = dialect.infer_algorithm(levels[0]) or _by_marker(levels[0])
    if inferred:
        return NamedAlgorithm(*inferred, is_inferred=True)
    return _by_file_name(dialect, file)


def refuse_other_algorithm(values: Mapping[str, Any], dialect: Dialect, file: str | None) -> None:
    """Raise a RequestError if a config without any key of the dialect names an algorithm that it does not plan."""
    algorithm = find_algorithm(values, (), dialect, file)
    if algorithm and algorithm.name and algorithm.name not in dialect.algorithm_names:
        raise _not_planned(algorithm, dialect)


def names_another_algorithm(level: tuple[str, ...], dialect: Dialect) -> bool:
    """Return whether a level has the name of an algorithm that the dialect does not plan."""
    names = [name for part in reversed(level) if (name := _fold(part)) in VOCABULARY]
    return bool(names) and names[0] not in dialect.algorithm_names


def _enclosing(values: Any, level: tuple[str, ...]) -> Iterator[Mapping[str, Any]]:
    """Yield the mapping of a level, then those that contain it, from the inside out."""
    chain: list[Any] = [values]
    for part in level:
        chain.append(chain[-1][part])
    yield from reversed(chain)


def _text_at(level: Any, key: str) -> str:
    """Return the text of a key, nested or dotted; empty if it is missing or not text."""
    if isinstance(level.get(key), str):
        return str(level[key])
    for part in key.split("."):
        level = level.get(part) if isinstance(level, Mapping) else None
    return level if isinstance(level, str) else ""


def _recognize(text: str, dialect: Dialect, *, is_class: bool = False) -> list[str]:
    """Return the algorithms that a text names, those that the dialect plans first.

    The text is a name, or words that contain one (`ff_qr_dqn`); a class may have one inside (`MyPPOConfig`).
    """
    if _fold(text) in VOCABULARY:
        return [_fold(text)]
    words = [_fold(word) for word in re.split(r"[^A-Za-z0-9]+", text) if word]
    names, start = [], 0
    while start < len(words):
        ends = range(min(len(words), start + 3), start, -1)
        match = next(((end, name) for end in ends if (name := "".join(words[start:end])) in VOCABULARY), None)
        if match:
            names.append(match[1])
        start = match[0] if match else start + 1
    if not names and is_class:
        inside = [name for name in VOCABULARY if len(name) >= _SHORTEST_PART and name in _fold(text)]
        names = sorted(inside, key=len, reverse=True)[:1]
    return sorted(names, key=lambda name: name not in dialect.algorithm_names)


def _by_marker(level: Mapping[str, Any]) -> tuple[str, str] | None:
    return next(((name, f"the key {key}") for key, name in MARKERS.items() if key in level), None)


def _by_file_name(dialect: Dialect, file: str | None) -> NamedAlgorithm | None:
    """Return the algorithm in the name of the file, or of its folders if the library names those."""
    path = PurePath(file or "")
    places = [("file", path.stem), *(("folder", part) for part in reversed(path.parts[:-1]))]
    for what, text in places if dialect.algorithm_folders else places[:1]:
        names = [name for name in _recognize(text, dialect) if _fold(text) == name or name not in _ORDINARY_WORDS]
        if names:
            return NamedAlgorithm(names[0], f"the {what} name {short_repr(text)[1:-1]}", is_inferred=True)
    return None


def check_algorithm(algorithm: NamedAlgorithm | None, dialect: Dialect, other_keys: tuple[str, ...]) -> tuple[str, ...]:
    """Return the notes on the algorithm of a config; raise a RequestError if the dialect does not plan it."""
    if RULES[dialect.algo].uses_replay:
        return ()
    off_policy = sorted(_OFF_POLICY_KEYS & {name.rpartition(".")[2].lower() for name in other_keys})
    is_weak = algorithm is None or (algorithm.is_inferred and algorithm.name in dialect.algorithm_names)
    if is_weak and len(off_policy) >= 2:
        raise RequestError(
            "family",
            f"The config is off-policy ({', '.join(off_policy)}); Rollshape plans on-policy batches.",
            f"Give {dialect.algorithm_title} config of {dialect.library}.",
        )
    if algorithm is None:
        return (f"the config does not name its algorithm: read as {dialect.algorithm}",)
    if algorithm.name in dialect.algorithm_names:
        return (f"algorithm: {algorithm.title}, from {algorithm.where}",) if algorithm.is_inferred else ()
    raise _not_planned(algorithm, dialect)


def _not_planned(algorithm: NamedAlgorithm, dialect: Dialect) -> RequestError:
    planned = _planned(dialect)
    rename = f"If it is {dialect.algorithm_title} config, rename the file." if algorithm.is_inferred else ""
    give = f"Give {dialect.algorithm_title} config."
    if not algorithm.name:
        return RequestError(
            "family",
            f"{algorithm.where} is not an algorithm that Rollshape knows; it plans {planned}.",
            f"If its batches are those of {dialect.algorithm}, write {dialect.algorithm} there.",
        )
    if algorithm.name in OFF_POLICY:
        return RequestError(
            "family",
            f"{algorithm.where}: this is {algorithm.title}; Rollshape plans on-policy batches.",
            rename or give + (" rollshape plan --algo sac plans SAC." if algorithm.name == "sac" else ""),
        )
    return RequestError(
        "family",
        f"{algorithm.where}: this is {algorithm.title}; Rollshape plans {planned}.",
        f"{_elsewhere(algorithm, dialect)}{rename or give}",
    )


def _planned(dialect: Dialect) -> str:
    """Return the algorithms of a library that have a dialect, such as `PPO and A2C of sb3`."""
    titles = list(dict.fromkeys(other.algorithm for other in _dialects_of(dialect)))
    return f"{' and '.join([', '.join(titles[:-1]), titles[-1]] if titles[1:] else titles)} of {dialect.name}"


def _dialects_of(dialect: Dialect) -> list[Dialect]:
    from rollshape.geometry.dialects.registry import DIALECTS

    library = dialect.name.partition(":")[0]
    return [other for other in DIALECTS.values() if other.name.partition(":")[0] == library]


def _elsewhere(algorithm: NamedAlgorithm, dialect: Dialect) -> str:
    """Return a hint if another dialect of the same library plans the algorithm."""
    names = [other.name for other in _dialects_of(dialect) if algorithm.name in other.algorithm_names]
    return f"The dialect {names[0]} plans it. " if names else ""
