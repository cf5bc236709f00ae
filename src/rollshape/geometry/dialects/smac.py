"""Agents of multi-agent environments that rl_games knows by name."""

from __future__ import annotations

# Allied units of the maps of the StarCraft Multi-Agent Challenge (Samvelyan et al. 2019; smac/env/starcraft2/maps).
SMAC_AGENTS = {
    "2c_vs_64zg": 2, "2m_vs_1z": 2, "2s3z": 5, "2s_vs_1sc": 2, "3m": 3, "3s5z": 8, "3s5z_vs_3s6z": 8, "3s_vs_3z": 3,
    "3s_vs_4z": 3, "3s_vs_5z": 3, "5m_vs_6m": 5, "6h_vs_8z": 6, "8m": 8, "8m_vs_9m": 8, "10m_vs_11m": 10,
    "1c3s5z": 9, "25m": 25, "27m_vs_30m": 27, "MMM": 10, "MMM2": 10, "bane_vs_bane": 24, "corridor": 6,
    "so_many_baneling": 7,
}  # fmt: skip
SMAC = frozenset({"smac", "smac_cnn"})  # env_name in rl_games; the map is env_config.name
SMAC_V2 = "smac_v2"  # the number of agents is in another file, which env_config.path names
MULTIWALKER = ("multiwalker_env", 3)  # PettingZoo's default, which rl_games uses
