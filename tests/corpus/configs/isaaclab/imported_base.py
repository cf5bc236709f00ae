from isaaclab.utils import configclass

from .rsl_rl_ppo_cfg import BlockPushFlatPPORunnerCfg


@configclass
class BlockPushWithArmPPORunnerCfg(BlockPushFlatPPORunnerCfg):
    num_steps_per_env = 32

    def __post_init__(self):
        super().__post_init__()
        self.max_iterations *= 2
