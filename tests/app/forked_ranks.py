"""Runs `aimfor` commands in two processes each, as torchrun would; everything is imported once and then forked.

python forked_ranks.py '[["train", …], …]' prints a line of JSON for each command: the exit codes, what was said, and
which files it left. Of a command that begins with "kill" the last process is killed (SIGKILL) when it asks for the
third time whether to stop: by then the first has saved the state at least once.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
import tempfile

import pytest

from aimfor.failpoints import VARIABLE
from undrawn import ALL

WORLD = 2
for module in ("torch._dynamo", "torch.distributed.fsdp", "torch.distributed.tensor", "lightgbm",
               "aimfor.app.cli.main", "aimfor.app.cli.bar", "aimfor.app.stream.command"):  # fmt: skip
    importlib.import_module(module)
for change in ALL:
    change(pytest.MonkeyPatch())


def start(words: list[str], rank: int, port: int, said: str, kill: bool) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.environ |= {
            "RANK": str(rank),
            "WORLD_SIZE": str(WORLD),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            VARIABLE: "step:3=SIGKILL" if kill else "",
        }
        file = os.open(said, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(file, 2)
        os.dup2(file, 1)
        from aimfor.__main__ import main

        code = main(words)
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.stderr.flush()
        os._exit(code)


def run(words: list[str]) -> dict[str, object]:
    kill = words[0] == "kill" and bool(words.pop(0))
    with socket.socket() as free, tempfile.TemporaryDirectory() as folder:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        said = os.path.join(folder, "said")
        children = [start(words, rank, port, said, kill and rank == WORLD - 1) for rank in range(WORLD)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        out = words[words.index("--out") + 1] if "--out" in words else words[-1]
        with open(said) as file:
            return {"codes": codes, "said": file.read(), "left": os.listdir(out) if os.path.isdir(out) else []}


for command in json.loads(sys.argv[1]):
    print(json.dumps(run(command)), flush=True)
