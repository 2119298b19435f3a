"""What runs inside the sandbox: sets limits, runs a program's parts in order, and proves that it came to the end.

Stands alone: it is handed to another Python as text, and sees nothing of this package. Standard input holds one
JSON object: {"parts", "limits": {name of a resource: most}, "nonce_fd", "result_fd"}.
"""

import json
import os
import resource
import sys
import types


def _main() -> None:
    with os.fdopen(0, "rb") as given:
        task = json.loads(given.read())
    nonce_fd, result_fd = task["nonce_fd"], task["result_fd"]
    for name, most in task["limits"].items():
        resource.setrlimit(getattr(resource, name), (most, most))
    nowhere = os.open(os.devnull, os.O_RDWR)  # becomes standard input
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    sys.path[:] = [entry for entry in sys.path if entry]
    read, write, leave = os.read, os.write, os._exit  # kept: the program may replace them
    solution = types.ModuleType("solution")  # not __main__: a program's own trial run is not wanted
    sys.modules["solution"] = solution
    write(result_fd, b"started\n")
    try:
        for number, part in enumerate(task["parts"]):
            exec(compile(part, "<program>" if number == 0 else "<tests>", "exec"), solution.__dict__)
    except BaseException as error:  # SystemExit is one: a program that leaves early has passed nothing
        try:
            said = f"{type(error).__name__}: {error}"[:200]
        except BaseException:
            said = "an error that cannot be shown"
        write(result_fd, said.encode("ascii", "backslashreplace"))
        leave(1)
    write(result_fd, read(nonce_fd, 256) + b"\n")
    leave(0)


if __name__ == "__main__":
    _main()
