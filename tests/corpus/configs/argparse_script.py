import argparse


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num-envs", type=int, default=16, help="parallel environments")
    parser.add_argument("--num-steps", type=int, default=64)
    parser.add_argument("--num-minibatches", type=int, default=4)
    parser.add_argument("--update-epochs", type=int, default=3)
    parser.add_argument("--total-timesteps", type=int, default=1_000_000)
    return parser.parse_args()
