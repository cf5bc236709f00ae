"""A connection to Ray: to a cluster that the user names, or to a new one that only this machine can reach."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from rollshape.errors import RequestError, RunError

POLL_SECONDS = 2.0
MAX_SILENCE = 30.0  # seconds without an answer from the cluster's control service; Ray gives up after 60
JOIN_SECONDS = 3.0  # that threads may take to return from their last call into Ray
LOOPBACK = "127.0.0.1"


class ClusterClosed(Exception):
    """The study has ended or was interrupted while a thread waited for a trial."""


class Cluster:
    """A connected Ray; a thread asks it every two seconds whether the node of this process is still alive.

    Ray itself waits forever when its node is gone, and aborts the process a minute after its control service is gone.
    It also ends the whole process if a thread calls it after `ray.shutdown()`, so `close` waits for all threads that
    were started with `start_thread`; these call `check_open` before every call into Ray.
    """

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self._node = ray.get_runtime_context().get_node_id()
        self._last_answer = time.monotonic()
        self._failure = ""
        self._is_closed = threading.Event()
        self._threads: list[threading.Thread] = []
        self.start_thread(self._watch)

    def start_thread(self, target: Callable[[], None]) -> None:
        """Start a daemon thread that may call Ray until the cluster is closed."""
        thread = threading.Thread(target=target, daemon=True)
        self._threads = [other for other in self._threads if other.is_alive()] + [thread]
        thread.start()

    def check_open(self) -> None:
        """Raise ClusterClosed once Ray must not be called any more."""
        if self._is_closed.is_set():
            raise ClusterClosed

    def check(self) -> None:
        """Raise a RunError if the cluster is lost."""
        silence = time.monotonic() - self._last_answer
        if not self._failure and silence > MAX_SILENCE:
            self._failure = f"it has not answered for {silence:.0f} s"
        if self._failure:
            raise RunError(
                "cluster",
                f"The Ray cluster is lost: {self._failure}. Trials that have ended are kept.",
                "Run the same command again to resume the study.",
            )

    def close(self) -> None:
        """Disconnect, and end the cluster if it was started here.

        If a thread does not return from Ray, Ray disconnects when the process exits, after the last output.
        """
        self._is_closed.set()
        end = time.monotonic() + JOIN_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            self.ray.shutdown()

    def _watch(self) -> None:
        while not self._is_closed.wait(POLL_SECONDS):
            try:
                nodes = {node["NodeID"]: node["Alive"] for node in self.ray.nodes()}
            except Exception as error:  # whatever it is, there is no cluster
                self._failure = str(error).split("\n")[0] or type(error).__name__
                return
            if not nodes.get(self._node):
                self._failure = "the node of this machine (its raylet) has died"
                return
            self._last_answer = time.monotonic()


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[Cluster]:
    """Connect to the cluster at an address (by default in RAY_ADDRESS), or start one that ends with the block."""
    os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"  # a late call of a thread must not start another cluster
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    if address == "local":
        _restrict_new_cluster()
    import ray

    on_terminate = _terminate_handler()
    with tempfile.TemporaryDirectory() as empty:
        try:
            _init(ray, address, empty)
        except (ConnectionError, ValueError, RuntimeError) as error:
            text = str(error).split("\n")[0]
            raise RequestError("study", f"No Ray cluster at {address}: {text}", "Check --address.") from None
    if on_terminate is not None:
        signal.signal(signal.SIGTERM, on_terminate)  # Ray has replaced it
    cluster = Cluster(ray)
    try:
        yield cluster
    finally:
        cluster.close()


def _restrict_new_cluster() -> None:
    """Set what Ray reads from the environment: a cluster on the loopback interface that requires a token.

    The token is that of this process. Ray before 2.52 has no tokens and ignores it. Ray reads the other two when it is
    imported; in a program that has already done so, its defaults apply (since 2.60 they require a token, too).
    """
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    if "ray" not in sys.modules:
        os.environ.setdefault("RAY_AUTH_MODE", "token")
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # else the loopback address is replaced by the machine's


def _init(ray: Any, address: str, empty: str) -> None:
    options: dict[str, Any] = {"address": address, "log_to_driver": False, "logging_level": "error"}
    if address == "local":
        options |= {"include_dashboard": False, "_node_ip_address": LOOPBACK}
    if "RAY_JOB_CONFIG_JSON_ENV_VAR" not in os.environ:  # `ray job submit` has a working directory already
        options["runtime_env"] = {"working_dir": empty}  # else workers import modules from the current directory
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # JAX warns of the processes that Ray forks
        ray.init(**options)


def _terminate_handler() -> Any:
    """Return what handles SIGTERM, or None in a thread that cannot restore it."""
    return signal.getsignal(signal.SIGTERM) if threading.current_thread() is threading.main_thread() else None
