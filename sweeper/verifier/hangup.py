"""SIGHUP is ignored while serving: unhandled, it ends vLLM's API server and leaves its engine and workers behind.

An ignored signal stays ignored in the processes that are started afterwards.
"""

import os
import signal
import threading

SERVING_PLUGIN = "asd_serving"


def ignore_hangup() -> bool:
    """Ignore SIGHUP in this process; False outside of its main thread, where that cannot be done."""
    if threading.current_thread() is not threading.main_thread():
        return False
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return True


def serving_named() -> bool:
    """Whether VLLM_PLUGINS names the serving plugin."""
    return SERVING_PLUGIN in os.environ.get("VLLM_PLUGINS", "").split(",")
