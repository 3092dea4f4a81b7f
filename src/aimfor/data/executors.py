"""Many cells on many processes or machines: any `concurrent.futures.Executor`, a store, and lost workers made good.

A cell is a pure function of its description, so where it runs and how often it is tried change nothing in the result.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from pathlib import Path
from typing import Any

from ..errors import AimforError, InputError
from .processes import TRIES, end_with_parent, process_pool

__all__ = ["open_executor", "run_cells"]

Cell = dict[str, Any]
Result = dict[str, Any]
FORMS = '"local:4", "dask://HOST:PORT", "ray" or your own as "package.module:factory"'
#: Seconds until an address that does not answer is given up on.
PATIENCE = 10


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
    from . import checkpoint  # brings torch, which a worker that starts does not need yet

    done: dict[str, Result] = {}
    if store is not None:
        store.mkdir(parents=True, exist_ok=True)
        done = {key: checkpoint.read_json(store / f"{key}.json") for key in cells if (store / f"{key}.json").exists()}
    todo = {key: cell for key, cell in cells.items() if key not in done}
    with contextlib.closing(_results(todo, function, executor)) as results:
        for key, result in results:
            # The round trip makes a fresh result equal to one read from the store.
            done[key] = json.loads(json.dumps(checkpoint.finite(result)))
            if store is not None:
                checkpoint.write_json(store / f"{key}.json", done[key])
            if report is not None:
                report(len(done), len(cells))
    return {key: done[key] for key in cells}


def _results(todo: dict[str, Cell], function: Callable[[Cell], Result], name: str) -> Generator[tuple[str, Result]]:
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
    if isinstance(pool, _Closing):
        pool.abandon()


def local_workers(name: str) -> int | None:
    """N of ``"local:N"``; None for another executor."""
    kind, _, count = name.partition(":")
    if kind != "local":
        return None
    if not count.isdecimal() or int(count) < 1:
        raise InputError("--executor", repr(name), '"local:N" with a number of processes N of at least 1')
    return int(count)


def open_executor(name: str, modules: Sequence[str] = ()) -> Executor:
    """The executor of that name, ready for work; use it in a ``with`` statement.

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
        return process_pool(count, end_with_parent, modules=modules)
    if name.startswith("dask://"):
        return _dask(name)
    if name == "ray":
        return _Ray()
    module, _, factory = name.partition(":")
    if not module or not factory or factory.startswith("/"):
        raise InputError("--executor", repr(name), FORMS)
    return _own(name, module, factory)


def _own(name: str, module: str, factory: str) -> Executor:
    try:
        pool = getattr(importlib.import_module(module), factory)()
    except Exception as error:
        # Whatever a user's factory raises is about the user's code: name it and stop in one line.
        came = f"{name}, which fails ({type(error).__name__}: {error})"
        raise InputError("--executor", came, "a factory that gives an executor") from None
    if not isinstance(pool, Executor):
        raise InputError("--executor", f"{name}, which gives a {type(pool).__name__}", "a concurrent.futures.Executor")
    return pool


class _Closing(Executor):
    """An executor whose connection is closed with it, and which can be given up at once."""

    def abandon(self) -> None:
        raise NotImplementedError


class _Dask(_Closing):
    """Dask's own executor, the client closed with it. Dask itself runs the tasks of a lost worker again."""

    def __init__(self, client: Any) -> None:
        self.client, self.pool = client, client.get_executor(retries=0)

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        return self.pool.submit(function, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if self.client.status != "closed":
            self.pool.shutdown(wait=wait)
            self.client.close()

    def abandon(self) -> None:
        # Without the client the scheduler forgets its tasks; one that is running ends by itself on its worker.
        with contextlib.suppress(Exception):
            self.client.close(timeout=1)


def _dask(name: str) -> Executor:
    try:
        from distributed import Client
    except ImportError:
        raise _absent("dask", "distributed") from None
    address = "tcp://" + name.removeprefix("dask://")
    try:
        client = Client(address, timeout=PATIENCE, set_as_default=False)
        found = client.run(versions)
    except (OSError, TimeoutError, ValueError) as error:
        came = f"{name}, which does not answer ({type(error).__name__})"
        raise InputError("--executor", came, "the address of a running Dask scheduler") from None
    try:
        if not found:
            raise InputError("--executor", f"{name}, a cluster without workers", "at least one worker")
        _same_versions(name, found)
    except InputError:
        client.close()
        raise
    return _Dask(client)


def versions(*_: Any) -> dict[str, str]:
    """What the last bits of a result may depend on."""
    import torch

    from .. import __version__

    return {"aimfor": __version__, "torch": torch.__version__}


def _same_versions(name: str, found: Mapping[str, dict[str, str]]) -> None:
    own = versions()
    for worker, theirs in found.items():
        if theirs != own:
            came = f"{name}, whose worker {worker} has {theirs}"
            raise InputError("--executor", came, f"what is installed here: {own}")


class _Ray(_Closing):
    """Ray's tasks, whose references give futures. Ray itself runs the tasks of a lost worker again."""

    def __init__(self) -> None:
        try:
            self.ray = importlib.import_module("ray")
        except ImportError:
            raise _absent("ray", "ray") from None
        self.references: list[Any] = []
        if not self.ray.is_initialized():
            self.ray.init(log_to_driver=False)

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        reference = self.ray.remote(function).options(num_cpus=1, max_retries=TRIES).remote(*args, **kwargs)
        self.references.append(reference)
        return reference.future()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.ray.shutdown()

    def abandon(self) -> None:
        for reference in self.references:
            with contextlib.suppress(Exception):
                self.ray.cancel(reference, force=True)


def _absent(package: str, install: str) -> AimforError:
    return InputError(
        "--executor", f"no package {package!r}", "an executor that is installed", f"pip install '{install}'"
    )
