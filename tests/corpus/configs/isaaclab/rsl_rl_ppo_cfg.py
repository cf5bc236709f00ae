from isaaclab.utils import configclass
from isaaclab_rl.rsl_rl import RslRlOnPolicyRunnerCfg, RslRlPpoActorCriticCfg, RslRlPpoAlgorithmCfg

EPOCHS = 2 + 3


@configclass
class BlockPushPPORunnerCfg(RslRlOnPolicyRunnerCfg):
    num_steps_per_env = 24
    max_iterations = 1_500
    experiment_name = "block_push"
    policy = RslRlPpoActorCriticCfg(actor_hidden_dims=[256, 128], activation="elu")
    algorithm = RslRlPpoAlgorithmCfg(
        clip_param=0.2,
        num_learning_epochs=EPOCHS,
        num_mini_batches=4,
        learning_rate=1.0e-3,
        schedule="adaptive",
        gamma=0.99,
        lam=0.95,
        desired_kl=0.01,
        max_grad_norm=1.0,
    )


@configclass
class BlockPushFlatPPORunnerCfg(BlockPushPPORunnerCfg):
    def __post_init__(self):
        super().__post_init__()
        self.max_iterations = 300
        self.algorithm.num_mini_batches = 8
        self.policy.actor_hidden_dims = [128, 128]
