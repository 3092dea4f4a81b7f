"""The same work in several processes that talk by gloo, one thread each."""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist


def on_ranks(world: int, work: Callable[[int, int], dict[str, Any]]) -> list[dict[str, Any]]:
    """What ``work(rank, world)`` found in each of ``world`` forked processes; one alone has no process group."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(world):
            process = os.fork()
            if process == 0:
                code = 1
                try:
                    _child(rank, world, port, Path(folder), work)
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    sys.stderr.flush()
                    os._exit(code)
            children.append(process)
        codes = [os.waitpid(process, 0)[1] for process in children]
        assert not any(codes), codes
        return [json.loads(Path(folder, str(rank)).read_text()) for rank in range(world)]


def _child(rank: int, world: int, port: int, folder: Path, work: Callable[[int, int], dict[str, Any]]) -> None:
    torch.set_num_threads(1)
    if world > 1:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        dist.init_process_group("gloo", rank=rank, world_size=world)
    (folder / str(rank)).write_text(json.dumps(work(rank, world)))
