"""Training speed, compared with SB3 and sbx at the same shape and settings in the same benchmark.

CartPole-v1, 64-64 networks, 4 epochs, 4 minibatches. The others run in the peers' environment, which
`make test-peers` creates. A line with the ratios is appended to history.jsonl. Run: make bench-train
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from history import record, shape_ratios

from rollshape.training.bench import bench

SHAPES = ("4x128", "64x128", "512x16", "2048x16")
AGAINST_SB3 = {"4x128": 30, "64x128": 10}  # how many times as fast it has to be
UTILISATION = {"4x128": 0.20, "64x128": 0.30, "512x16": 0.30, "2048x16": 0.35}
GROWING = ("64x32", "256x32", "1024x32", "4096x32")  # steps/s must not fall
PEERS = Path(__file__).parents[1] / ".venv-peers" / "bin" / "python"


def main() -> int:
    met, ratios, load = True, {}, os.getloadavg()[0]
    python = str(PEERS) if PEERS.exists() else sys.executable
    print("     shape     steps/s  compile s  utilisation    bar    SB3 steps/s  ratio  bar    sbx steps/s  ratio")
    for row in bench("CartPole-v1", SHAPES, seconds=5.0, python=python):
        ratios |= shape_ratios(row)
        met = met and row.utilisation >= UTILISATION[row.shape]
        beside = ""
        if "sb3" in row.peers:
            bar = AGAINST_SB3.get(row.shape)
            ratio = row.sps / row.peers["sb3"]
            met = met and (bar is None or ratio >= bar)
            beside += f"    {row.peers['sb3']:>11,.0f}  {ratio:>5.1f}  {bar or '':>3}"
        if "sbx" in row.peers:
            beside += f"    {row.peers['sbx']:>11,.0f}  {row.sps / row.peers['sbx']:>5.1f}"
        ours = f"{row.shape:>10}  {row.sps:>10,}  {row.compile_s:>9.2f}  {row.utilisation:>11.3f}"
        print(f"{ours}  {UTILISATION[row.shape]:>5.2f}{beside}", flush=True)
    speeds = []
    for row in bench("CartPole-v1", GROWING, seconds=5.0, python=""):
        speeds.append(row.sps)
        print(f"{row.shape:>10}  {row.sps:>10,}", flush=True)
    met = met and speeds[-1] >= 0.9 * speeds[0]
    record(ratios, load)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
