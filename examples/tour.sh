#!/usr/bin/env bash
# A tour of the planner. It takes a minute and writes only to a temporary folder.
set -euo pipefail
rollshape=$(realpath "${1:-$(command -v rollshape)}")
examples=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$examples"/*.yaml "$folder"
cd "$folder"

say() { printf '\n\033[1m%s\033[0m\n' "$1"; }
run() {
  printf '\033[2m$ rollshape %s\033[0m\n' "$*"
  "$rollshape" "$@" 2>&1
}

say "1. A test with 16 environments. The planner chooses the minibatch size and says why:"
run plan --num-envs 16 --num-steps 16

say "2. Training with 2048 environments and a budget of 2M steps. Note how few updates that gives:"
run plan --num-envs 2048 --num-steps 16 --total-timesteps 2_000_000

say "3. A minibatch size that does not divide the rollout is an error with the nearest valid sizes; fix repairs it:"
run plan --num-envs 1025 --num-steps 1 --minibatch-size 256 || true
run plan --num-envs 1025 --num-steps 1 --minibatch-size 256 --on-remainder fix

say "4. An Isaac Lab config that fails with --num_envs 16, made valid in place:"
run patch rl_games_ppo_cfg.yaml --dialect isaaclab --num-envs 16

say "5. An SB3 config translated to rl_games, with everything that is not preserved:"
run translate sb3.yaml --from sb3 --to rl_games

say "6. The diagram of a plan:"
run plan --num-envs 64 --num-steps 32 --total-timesteps 500_000 --diagram text

say "Next: rollshape plan --help, or the README."
