from ray.rllib.algorithms.ppo import PPOConfig

config = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=4, num_envs_per_env_runner=8, rollout_fragment_length=32)
    .training(train_batch_size_per_learner=1024, minibatch_size=128, num_epochs=6, lr=3e-4)
)
