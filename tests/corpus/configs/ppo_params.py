from ml_collections import config_dict

from robots import registry


def brax_ppo_config(env_name, impl=None):
    env_config = registry.get_default_config(env_name)
    rl_config = config_dict.create(
        num_timesteps=100_000_000,
        num_evals=10,
        episode_length=env_config.episode_length,
        action_repeat=1,
        unroll_length=20,
        num_minibatches=32,
        num_updates_per_batch=4,
        discounting=0.97,
        learning_rate=3e-4,
        num_envs=8192,
        batch_size=256,
        network_factory=config_dict.create(policy_hidden_layer_sizes=(128, 128)),
        num_resets_per_eval=10,
    )
    if env_name.startswith("Hop"):
        rl_config.num_timesteps = 50_000_000
    if env_name in ("Trot", "Walk"):
        rl_config.num_envs = 4096
        rl_config.batch_size //= 2
    elif env_name == "Backflip":
        rl_config.unroll_length = 2 * 20
        rl_config.network_factory.update(policy_hidden_layer_sizes=(512, 256))
    elif env_name == "Unknown":
        raise ValueError(env_name)
    if impl == "warp":
        rl_config.num_envs = 1
    return rl_config


def brax_sac_config(env_name):
    return config_dict.create(num_timesteps=5_000_000, num_envs=128, batch_size=512, grad_updates_per_step=8)
