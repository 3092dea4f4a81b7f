"""The processes that other tests run programs in: new ones, quick to start, with an exit code and what was said."""

from __future__ import annotations

import os
import signal

from programs import Program, finished


def test_a_program_runs_in_a_process_of_its_own_that_has_imported_all() -> None:
    code = """
        import os, sys
        print(os.getpid(), "lightgbm" in sys.modules, "hypothesis" in sys.modules, sys.argv[1:], os.environ["OWN"])
        print("aside", file=sys.stderr)
    """
    program = Program("a b", 3, code=code, environment={"OWN": "yes"})
    assert program.wait() == 0
    assert program.stdout == f"{program.process.pid} True False ['a b', '3'] yes\n"
    assert program.stderr == "aside\n"
    assert program.process.pid != os.getpid()


def test_the_program_answers_with_its_exit_code_and_can_be_killed() -> None:
    assert finished("--version").stdout.startswith("aimfor ")
    wrong = Program("train", "no such file")
    assert wrong.wait() == 2
    assert wrong.stderr.startswith("aimfor: --metric: got nothing")
    asleep = Program(code="import time; time.sleep(60)")
    asleep.process.kill()
    assert asleep.wait() == -signal.SIGKILL
