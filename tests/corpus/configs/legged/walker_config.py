from legged.base_config import WalkerCfg, WalkerCfgPPO


class FastWalkerCfg(WalkerCfg):
    class env(WalkerCfg.env):
        num_envs = 2048


class FastWalkerCfgPPO(WalkerCfgPPO):
    class algorithm(WalkerCfgPPO.algorithm):
        entropy_coef = 0.01

    class runner(WalkerCfgPPO.runner):
        max_iterations = 300
