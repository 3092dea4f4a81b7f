"""Cells on processes or machines: any `concurrent.futures.Executor`, a store, and lost workers made good.

A cell is a pure function of its description, so where it runs and how often it is tried change nothing in the result.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib
import importlib.util
import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..files import finite, read_json, write_json

Cell = dict[str, Any]
Result = dict[str, Any]
FORMS = '"local:4", "dask://HOST:PORT", "ray" or your own as "package.module:factory"'
#: Seconds until an address that does not answer is given up on.
PATIENCE = 10
#: How processes begin.
START = "forkserver" if sys.platform == "linux" else "spawn"
CONTROL_GROUP = Path("/sys/fs/cgroup")
#: How many times in a row workers may die before a single cell is finished.
TRIES = 3
#: None on Windows.
resource: Any = importlib.import_module("resource") if importlib.util.find_spec("resource") else None


def run_cells(
    cells: Mapping[str, Cell],
    function: Callable[[Cell], Result],
    executor: str = "local:1",
    store: Path | None = None,
    report: Callable[[int, int], None] | None = None,
) -> dict[str, Result]:
    """Results of all cells by key, in the order of ``cells``; those in the store are not run again.

    Args:
        cells: Descriptions by key. A key names its cell for good: it should be a digest of the description.
        function: A pure function at the top of a module, so that workers can import it. Its result is JSON.
        executor: ``"local:4"`` (processes here), ``"dask://HOST:PORT"``, ``"ray"``, or ``"package.module:factory"``,
            which is called without arguments and gives a `concurrent.futures.Executor`.
        store: Folder of ``KEY.json`` files, each written whole or not at all when its cell is finished.
        report: Called with (finished, all) after each cell.

    A worker that dies takes nothing with it: its cells run again. Ctrl-C ends the workers at once, and what is stored
    stays. An exception of a cell ends the others and is raised here.

    Raises:
        InputError: An executor that is unknown, not installed or out of reach, or whose workers keep dying.

    Example:
        >>> run_cells({"a": {"x": 2}, "b": {"x": 3}}, lambda cell: {"square": cell["x"] ** 2})
        {'a': {'square': 4}, 'b': {'square': 9}}
    """
    done: dict[str, Result] = {}
    if store is not None:
        store.mkdir(parents=True, exist_ok=True)
        done = {key: read_json(store / f"{key}.json") for key in cells if (store / f"{key}.json").exists()}
    todo = {key: cell for key, cell in cells.items() if key not in done}
    with contextlib.closing(_results(todo, function, executor)) as results:
        for key, result in results:
            # The round trip makes a fresh result equal to one read from the store.
            done[key] = json.loads(json.dumps(finite(result)))
            if store is not None:
                write_json(store / f"{key}.json", done[key])
            if report is not None:
                report(len(done), len(cells))
    return {key: done[key] for key in cells}


def _results(todo: dict[str, Cell], function: Callable[[Cell], Result], name: str) -> Generator[tuple[str, Result]]:
    """Results as they come; local processes are killed by whatever ends this early."""
    if local_workers(name) == 1:
        for key, cell in todo.items():
            yield key, function(cell)
        return
    left, losses = dict(todo), 0
    while left:
        with open_executor(name, [function.__module__]) as pool:
            waiting = {pool.submit(function, cell): key for key, cell in left.items()}
            try:
                for future in concurrent.futures.as_completed(waiting):
                    result = future.result()
                    del left[waiting[future]]
                    losses = 0
                    yield waiting[future], result
            except BrokenExecutor:
                losses += 1
                if losses >= TRIES:
                    came = f"{name}, whose workers died {losses} times without finishing a cell"
                    remedy = "Look at their memory; the cells that are finished are kept."
                    raise InputError("--executor", came, "workers that stay alive", remedy) from None
            except BaseException:
                _abandon(pool, list(waiting))
                raise


def _abandon(pool: Executor, futures: list[Future[Result]]) -> None:
    """Gives up all work now. A pool's own shutdown would wait for the cells that are running."""
    processes = list((getattr(pool, "_processes", None) or {}).values())
    for process in processes:
        process.kill()
    # A pool of processes ends what is waiting itself when they die, and some versions stumble over what was cancelled.
    for future in [] if processes else futures:
        future.cancel()


def local_workers(name: str) -> int | None:
    """N of ``"local:N"``; None for another executor."""
    kind, _, count = name.partition(":")
    if kind != "local":
        return None
    if not count.isdecimal() or int(count) < 1:
        raise InputError("--executor", repr(name), '"local:N" with a number of processes N of at least 1')
    return int(count)


@contextlib.contextmanager
def open_executor(name: str, modules: Sequence[str] = ()) -> Iterator[Executor]:
    """The executor of that name; it is closed with the ``with`` statement.

    Args:
        name: As `run_cells` takes it.
        modules: What processes of ``"local:N"`` are going to import.

    Raises:
        InputError: Unknown, not installed, or out of reach.

    Example:
        >>> with open_executor("concurrent.futures:ThreadPoolExecutor") as executor:
        ...     executor.submit(max, 2, 3).result()
        3
    """
    count = local_workers(name)
    if count is not None:
        with process_pool(count, end_with_parent, modules=modules) as pool:
            yield pool
    elif name.startswith("dask://"):
        client = _dask(name)
        try:
            yield client.get_executor(retries=0)  # Dask itself runs the tasks of a lost worker again
        finally:
            client.close(timeout=PATIENCE)  # the scheduler forgets tasks whose client is gone
    elif name == "ray":
        ray = _installed("ray")
        if not ray.is_initialized():
            ray.init(log_to_driver=False)
        try:
            yield _Ray(ray)
        finally:
            ray.shutdown()  # ends its tasks too
    else:
        with _own(name) as own:
            yield own


def _own(name: str) -> Executor:
    module, _, factory = name.partition(":")
    if not module or not factory or factory.startswith("/"):
        raise InputError("--executor", repr(name), FORMS)
    try:
        pool = getattr(importlib.import_module(module), factory)()
    except Exception as error:
        # Whatever a user's factory raises is about the user's code: name it and stop in one line.
        came = f"{name}, which fails ({type(error).__name__}: {error})"
        raise InputError("--executor", came, "a factory that gives an executor") from None
    if not isinstance(pool, Executor):
        raise InputError("--executor", f"{name}, which gives a {type(pool).__name__}", "a concurrent.futures.Executor")
    return pool


def _dask(name: str) -> Any:
    """A client of the scheduler, whose workers have what is installed here."""
    distributed = _installed("distributed")
    try:
        address = "tcp://" + name.removeprefix("dask://")
        client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
        workers = client.run(versions)
    except (OSError, TimeoutError, ValueError) as error:
        came = f"{name}, which does not answer ({type(error).__name__})"
        raise InputError("--executor", came, "the address of a running Dask scheduler") from None
    own = versions()
    other = next((worker for worker in workers if workers[worker] != own), None)
    if workers and other is None:
        return client
    client.close()
    if not workers:
        raise InputError("--executor", f"{name}, a cluster without workers", "at least one worker")
    came = f"{name}, whose worker {other} has {workers[other]}"
    raise InputError("--executor", came, f"what is installed here: {own}")


def versions(*_: Any) -> dict[str, str]:
    """What the last bits of a result may depend on."""
    import torch

    from .. import __version__

    return {"aimfor": __version__, "torch": torch.__version__}


class _Ray(Executor):
    """Ray's tasks, whose references give futures. Ray itself runs the tasks of a lost worker again."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        return self.ray.remote(function).options(num_cpus=1, max_retries=TRIES).remote(*args, **kwargs).future()


def _installed(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        came, remedy = f"no package {package!r}", f"pip install '{package}'"
        raise InputError("--executor", came, "an executor that is installed", remedy) from None


def peak_megabytes() -> float | None:
    """The most memory this process has had; None where nobody tells."""
    try:
        return status_megabytes("VmHWM")
    except OSError:
        if resource is None:
            return None
        most = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return most / (1 << 20 if sys.platform == "darwin" else 1 << 10)  # macOS counts bytes, others kilobytes


def reset_peak() -> None:
    """Starts the peak anew, from what the process has now, where Linux allows it: a worker may have done other work."""
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def status_megabytes(name: str) -> float:
    """A line of Linux's own account. Raises `OSError` elsewhere."""
    with open("/proc/self/status", encoding="utf8") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 1024
    raise OSError(name)


def process_pool(
    count: int, initializer: Callable[..., None], initargs: tuple[Any, ...] = (), modules: Sequence[str] = ()
) -> ProcessPoolExecutor:
    """A pool of processes on this machine, one core each.

    On Linux they are forked from a server that has imported ``modules`` once for all; every process for itself would
    spend seconds on that. Elsewhere each starts anew, as Python's own default has it.
    """
    os.environ["OMP_NUM_THREADS"] = "1"  # they inherit it: one core each, whatever this process takes
    context = multiprocessing.get_context(START)
    if START == "forkserver":
        context.set_forkserver_preload(["__main__", *modules])
    return ProcessPoolExecutor(count, context, initializer, initargs)


def cores() -> int:
    """Cores that this process may use: by its affinity, and by its share of processor time where it has a quota."""
    free = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quotas = (quota for quota in map(_quota, ("cpu.max", "cpu/cpu.cfs_quota_us")) if quota)
    return min([free, *quotas])


def _quota(name: str) -> int | None:
    """Whole cores of a control group's quota, at least one: version 2 has one file, version 1 a file for the period."""
    try:
        words = (CONTROL_GROUP / name).read_text().split()
        period = words[1:] or (CONTROL_GROUP / name).with_name("cpu.cfs_period_us").read_text().split()
        quota = int(words[0]) / int(period[0])
    except (OSError, ValueError, IndexError, ZeroDivisionError):  # no such file, or "max"
        return None
    return max(1, int(quota)) if quota > 0 else None


def end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever; this ends it."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
