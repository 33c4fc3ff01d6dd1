"""``python forked.py SCRIPT SIZE NAMES``: the ranks of a script as forks of one process that has imported it.

Importing PyTorch takes longer than most of what the scripts do. The last line says how every rank ended.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import sys
import traceback
from types import ModuleType

from torch_rank import main_of


def as_rank(rank: int, script: ModuleType, names: str) -> int:
    os.environ["RANK"] = str(rank)
    sys.argv[1:] = [names]
    try:
        script.main() if hasattr(script, "main") else main_of(vars(script))
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def main() -> None:
    file, size, names = sys.argv[1:]
    script = importlib.import_module(file.removesuffix(".py"))
    ranks = []
    for rank in range(int(size)):
        pid = os.fork()
        if not pid:
            code = 1
            try:
                code = as_rank(rank, script, names)
            finally:
                os._exit(code)
        ranks.append(pid)
    print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in ranks]))


if __name__ == "__main__":
    main()
