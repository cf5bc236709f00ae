"""Keys of other libraries' configs, besides sizes and hyperparameters, that our trainer has a setting for.

A converter raises a ValueError for a value that cannot be expressed; the key is then reported as not taken over.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from rollshape.agents.activations import ActivationName
from rollshape.geometry.values import plain_scalar

Fields = dict[str, Any]
Converter = Callable[[Any], Fields]
_SYNONYMS = {"swish": "silu"}


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """A key by its path (from the level of the library's keys, or from the top of the file), and its converter."""

    path: str
    convert: Converter


def _text(field: str) -> Converter:
    def convert(value: Any) -> Fields:
        if not isinstance(value, str) or not value:
            raise ValueError(value)
        return {field: value}

    return convert


def _flag(field: str, *, on: Any = True, off: Any = False) -> Converter:
    def convert(value: Any) -> Fields:
        if not isinstance(value, bool):
            raise ValueError(value)
        return {field: on if value else off}

    return convert


def _seed(value: Any) -> Fields:
    value = plain_scalar(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**32:
        raise ValueError(value)  # such as -1 for a random seed
    return {"seed": value}


def _layers(value: Any) -> Fields:
    if not isinstance(value, (list, tuple)) or not value or not all(_is_size(size) for size in value):
        raise ValueError(value)
    return {"hidden_sizes": tuple(value)}


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _activation(value: Any) -> Fields:
    """Accept `elu`, `nn.ELU` and `torch.nn.ELU`; LeakyReLU, say, is not the name of one of ours."""
    name = value.rpartition(".")[2].lower() if isinstance(value, str) else ""
    name = _SYNONYMS.get(name, name)
    if name not in get_args(ActivationName):
        raise ValueError(value)
    return {"activation": name}


def _scaler(value: Any) -> Fields:
    """Convert skrl's state_preprocessor, the name of a class or null."""
    if value is None or value == "RunningStandardScaler":
        return {"normalize_observations": value is not None}
    raise ValueError(value)


def _zoo_normalize(value: Any) -> Fields:
    """Convert rl-zoo's `normalize`: true, or the arguments of VecNormalize as text."""
    options = _literal(value) if isinstance(value, str) else value
    if isinstance(options, bool):
        options = {"norm_obs": options, "norm_reward": options}
    if not isinstance(options, Mapping) or set(options) - {"norm_obs", "norm_reward"}:
        raise ValueError(value)
    on = {name: options.get(name, True) for name in ("norm_obs", "norm_reward")}
    return {"normalize_observations": on["norm_obs"], "normalize_rewards": on["norm_reward"]}


def _policy_kwargs(value: Any) -> Fields:
    """Convert SB3's `policy_kwargs`: a mapping, or rl-zoo's text `dict(net_arch=[64, 64], activation_fn=nn.Tanh)`."""
    options = _call_arguments(value) if isinstance(value, str) else value
    if not isinstance(options, Mapping) or set(options) - {"net_arch", "activation_fn", "ortho_init"}:
        raise ValueError(value)
    if options.get("ortho_init", True) is not True:
        raise ValueError(value)
    fields: Fields = {}
    layers = options.get("net_arch")
    if isinstance(layers, Mapping):
        if layers.get("pi") != layers.get("vf"):
            raise ValueError(value)  # our networks have equal sizes
        layers = layers.get("pi")
    if layers is not None:
        fields |= _layers(layers)
    return fields | (_activation(options["activation_fn"]) if "activation_fn" in options else {})


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(text) from error


def _call_arguments(text: str) -> dict[str, Any]:
    """Return the keyword arguments of `dict(…)` without evaluating anything; dotted names become text."""
    try:
        node: Any = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(text) from error
    return _arguments(node, text)


def _arguments(node: Any, text: str) -> dict[str, Any]:
    if not (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args
    ):
        raise ValueError(text)
    return {keyword.arg or "**": _argument(keyword.value, text) for keyword in node.keywords}


def _argument(node: Any, text: str) -> Any:
    if isinstance(node, ast.Call):
        return _arguments(node, text)
    if isinstance(node, (ast.Name, ast.Attribute)):
        return ast.unparse(node)
    return ast.literal_eval(node)


def _keys(*keys: tuple[str, Converter]) -> tuple[ConfigKey, ...]:
    return tuple(ConfigKey(path, convert) for path, convert in keys)


_SB3 = _keys(
    ("env", _text("env")),
    ("env_id", _text("env")),
    ("seed", _seed),
    ("normalize", _zoo_normalize),
    ("policy_kwargs", _policy_kwargs),
)
_CLEANRL = _keys(
    ("env_id", _text("env")),
    ("seed", _seed),
)
_RL_GAMES = _keys(
    ("params.seed", _seed),
    ("seed", _seed),
    ("env_name", _text("env")),
    ("normalize_input", _flag("normalize_observations")),
    ("params.network.mlp.units", _layers),
    ("params.network.mlp.activation", _activation),
)
_RSL_RL = _keys(
    ("seed", _seed),
    ("empirical_normalization", _flag("normalize_observations")),
    ("algorithm.normalize_advantage_per_mini_batch", _flag("normalize_advantages", on="minibatch", off="rollout")),
    ("policy.actor_hidden_dims", _layers),
    ("policy.critic_hidden_dims", _layers),
    ("policy.activation", _activation),
)
_SKRL = _keys(
    ("seed", _seed),
    ("agent.state_preprocessor", _scaler),
    ("agent.observation_preprocessor", _scaler),
    ("agent.clip_predicted_values", _flag("clip_value")),
)
CONFIG_KEYS: dict[str, tuple[ConfigKey, ...]] = {
    "sb3": _SB3,
    "isaaclab:sb3": _SB3,
    "cleanrl": _CLEANRL,
    "maniskill": _CLEANRL,
    "rl_games": _RL_GAMES,
    "isaaclab:rl_games": _RL_GAMES,
    "rsl_rl": _RSL_RL,
    "isaaclab:rsl_rl": _RSL_RL,
    "skrl": _SKRL,
    "isaaclab:skrl": _SKRL,
    "purejaxrl": _keys(
        ("ENV_NAME", _text("env")),
        ("SEED", _seed),
        ("ACTIVATION", _activation),
    ),
    "rejax": _keys(
        ("env", _text("env")),
        ("seed", _seed),
        ("normalize_observations", _flag("normalize_observations")),
        ("normalize_rewards", _flag("normalize_rewards")),
        ("agent_kwargs.hidden_layer_sizes", _layers),
        ("agent_kwargs.activation", _activation),
    ),
    "brax": _keys(
        ("seed", _seed),
        ("normalize_observations", _flag("normalize_observations")),
        ("network_factory.policy_hidden_layer_sizes", _layers),
        ("network_factory.value_hidden_layer_sizes", _layers),
    ),
    "stoix": _keys(("arch.seed", _seed)),
}
