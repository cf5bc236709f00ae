from elsewhere.agents import SomeRunnerCfg


class TunedRunnerCfg(SomeRunnerCfg):
    num_steps_per_env = 48
    max_iterations = 100
