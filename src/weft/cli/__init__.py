"""The command line: one file per verb.

Results go to standard output, everything else to standard error. Exit code 0 is success, 2 is bad input, with one clear
message; 1 is a failure of ours or of another rank, 130 an interruption.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from weft import __version__
from weft.errors import ExecutionError, WeftError

VERBS = {
    "simulate": "how long one collective takes on a network, and why",
    "compare": "every collective side by side, with the bound",
    "plan": "the best schedule for a network, its bound, and why",
    "show": "a network, a plan or a trace as text or as a picture",
    "probe": "measure the network between the ranks that run this",
    "emulate": "a command as every worker of a network, on this machine",
    "bench": "measured all-reduces: a plan, the bound, and the backend's own",
    "train": "a model on several workers, as a file says",
    "reproduce": "a paper's figures: the paper's number beside ours",
}


class _Parser(argparse.ArgumentParser):
    """A parser that reports a mistake in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="weft", description="Synchronize gradients in the way that the network at hand does fastest.")
    parser.add_argument("--version", action="version", version=f"weft {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True, dest="verb")
    for verb, about in VERBS.items():
        module = importlib.import_module(f"weft.cli.{verb}")
        child = verbs.add_parser(
            verb, help=about, description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        module.add_arguments(child)
        child.set_defaults(run=module.run)
    return parser


def _in_one_line(message: str) -> str:
    """Several mistakes one after the other: whoever reads our errors by a program reads lines."""
    head, *rest = (line.strip() for line in message.splitlines() or [""])
    return " ".join([head, "; ".join(rest)]).strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    # What stands behind -- is somebody else's command, which argparse would take apart.
    end = words.index("--") if words[:1] == ["emulate"] and "--" in words else len(words)
    args = _parser().parse_args(words[:end])
    args.command = words[end + 1 :]
    try:
        code = args.run(args)
        sys.stdout.flush()
    except ExecutionError as error:
        sys.stderr.write(f"weft {args.verb}: error: {error}\n")
        return 1
    except WeftError as error:
        sys.stderr.write(f"weft {args.verb}: error: {_in_one_line(str(error))}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write(f"weft {args.verb}: interrupted\n")
        return 130
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code or 0
