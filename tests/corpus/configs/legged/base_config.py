class BaseConfig:
    pass


class WalkerCfg(BaseConfig):
    class env:
        num_envs = 4096
        episode_length_s = 20


class WalkerCfgPPO(BaseConfig):
    runner_class_name = "OnPolicyRunner"

    class algorithm:
        num_learning_epochs = 5
        num_mini_batches = 4
        learning_rate = 1.0e-3
        schedule = "adaptive"
        desired_kl = 0.01

    class runner:
        num_steps_per_env = 24
        max_iterations = 1500
