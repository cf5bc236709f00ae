"""A worker process of the local engine: trials come in as lines of JSON, what becomes of them goes out the same way.

`python -m rollshape.studies.engines.worker STUDY_DIR CORE`. It ends when its input ends, so it never outlives the study
that started it; what it was doing goes on from its last checkpoint.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from pathlib import Path
from typing import Any, TextIO

from rollshape.studies.execute import Interrupted, execute, probes
from rollshape.studies.fields import fitted
from rollshape.studies.store import Store
from rollshape.training.spec import Spec

SHOWN = ("update", "timesteps", "episodic_return", "eval_return", "sps")


def main(study_dir: str, core: str) -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})  # before JAX counts the cores
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # an environment may print; the protocol has its own channel
    orders: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    store = Store(Path(study_dir))
    while True:
        _run(store, orders.get(), out)


def _listen(orders: queue.Queue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    os._exit(0)  # the study has ended, or was killed


def _run(store: Store, order: dict[str, Any], out: TextIO) -> None:
    trial = order["trial"]

    def tell(kind: str, **what: Any) -> None:
        out.write(json.dumps({"kind": kind, "trial": trial, **what}) + "\n")

    claim = store.claim(trial)
    if claim is None:
        tell("taken")
        return
    with claim:
        before = store.progress().get(trial)
        if before is not None and (before.final or before.failures > order["failures"]):
            tell("end", result=vars(before.result))  # another process was quicker
            return
        store.begins(trial)
        tell("begin")
        spec = Spec(**{name: fitted(name, value) for name, value in order["spec"].items()})
        folder, at = store.run_dir(trial), order["probe_at"]
        result = execute(spec, folder, lambda row: tell("row", row={name: row[name] for name in SHOWN}), keep=bool(at))
        if result.state == "done":
            for share, document in probes(folder, at, order["probe_envs"], store.probes(trial)):
                store.write_probe(trial, share, document)
        store.ends(trial, result)
    tell("end", result=vars(result))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (KeyboardInterrupt, Interrupted):
        os._exit(130)
