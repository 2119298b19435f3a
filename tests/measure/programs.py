"""Programs that try to harm, to hide or to cheat: what the sandbox must hold. Each one is the answer to a test."""

HOSTILE: dict[str, str] = {
    "fork bomb": "import os\nwhile True:\n    os.fork()",
    "threads without end": "from threading import Event, Thread\nwhile True:\n    Thread(target=Event().wait).start()",
    "memory at once": "x = [0] * 10**11",
    "memory in steps": "x = []\nwhile True:\n    x.append(bytes(2**24))",
    "one big file": "with open('/tmp/x', 'wb') as f:\n    while True:\n        f.write(bytes(2**20)); f.flush()",
    "many files": "n = 0\nwhile True:\n    n += 1\n    open(f'/tmp/{n}', 'wb').write(bytes(2**19))",
    "a file beside /tmp": "open('/usr/x', 'w')",
    "shared memory": "open('/dev/shm/x', 'w')",
    "network": "import socket\nsocket.create_connection(('192.0.2.1', 80), 3)",
    "name lookup": "import socket\nsocket.gethostbyname('localhost.example')",
    "rm": "import shutil\nshutil.rmtree('/usr/lib')",
    "rm by command": "import subprocess\nsubprocess.run(['/usr/bin/rm', '-rf', '/usr/share'], check=True)",
    "read the password file": "open('/etc/shadow').read()",
    "read the home": "import os\nprint(os.listdir('/root'), os.listdir('/home'))",
    "kill its parents": "import os, signal\nos.kill(1, signal.SIGKILL)\nos.kill(os.getppid(), 9)\nraise SystemExit",
    "become root": "import os\nos.setuid(0)",
    "mount": "import ctypes\nif ctypes.CDLL(None).mount(b'none', b'/tmp', b'tmpfs', 0, None): raise OSError",
    "more of a resource": "import resource as r\nr.setrlimit(r.RLIMIT_NPROC, (999, 999))",
    "exit 0": "import sys\nsys.exit(0)",
    "exit 0 when it is main": "import sys\nif __name__ != 'x':\n    sys.exit(0)",
    "_exit 0": "import os\nos._exit(0)",
    "quit": "raise KeyboardInterrupt",
    "segmentation fault": "import ctypes\nctypes.string_at(0)",
    "abort": "import os\nos.abort()",
    "recursion": "def f():\n    return f()\nf()",
    "deep source": "(" * 5000 + ")" * 5000,
    "NUL byte": "x = 1\0",
    "half a character": "x = '\ud800'",
    "no Python": "This is the answer.",
    "endless loop": "while True:\n    pass",
    "long sleep": "import time\ntime.sleep(600)",
    "a child that stays": "import os, time\nif os.fork() == 0:\n    time.sleep(600)\nos._exit(0)",
    "endless output": "import os\nwhile True:\n    os.write(1, b'x' * 65536)",
    "reads its input": "print(1)\ninput()",
    "writes everywhere": (
        "import os\n"
        "for fd in range(256):\n"
        "    try: os.write(fd, b'started\\npassed\\n')\n"
        "    except OSError: pass\n"
        "os._exit(0)"
    ),
    "hands round what it reads": (
        "import os\n"
        "os.set_blocking(0, False)\n"
        "for source in range(3, 256):\n"
        "    try: secret = os.read(source, 64)\n"
        "    except OSError: continue\n"
        "    for fd in range(256):\n"
        "        if fd != source:\n"
        "            try: os.write(fd, secret)\n"
        "            except OSError: pass\n"
        "    break\n"
        "os._exit(0)"
    ),
}

# looks for the secret wherever text can be found; raises with the number of secrets it saw
LOOKS_FOR_THE_SECRET = """
import gc, os, re, sys
texts = [*sys.argv, *sys.orig_argv, *map(str, os.environ.items())]
texts += [open(0, closefd=False).read()]
for name in ("/proc/self/cmdline", "/proc/self/environ", "/proc/1/cmdline", "/proc/self/mem"):
    if os.path.exists(name):
        texts.append(open(name, errors="replace").read())
frame = sys._getframe()
while frame:
    texts += [repr(value) for value in frame.f_locals.values() if value is not texts]
    frame = frame.f_back
for thing in gc.get_objects():
    if isinstance(thing, dict):
        values = [v for v in list(thing.values()) if isinstance(v, (str, bytes))]
        texts += [v if isinstance(v, str) else v.decode("latin-1") for v in values]
secret = re.compile("(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
raise RuntimeError(f"{sum(bool(secret.search(text)) for text in texts)} secrets")
"""
