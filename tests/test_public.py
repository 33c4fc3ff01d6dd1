"""The public surface, and what importing it costs."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path

import pytest

import weft

PACKAGE = Path(weft.__file__).parent

LAYERS = [
    {"errors"},
    {"units", "files", "compiled", "linear", "heap"},
    {"trace"},
    {"network"},
    {"schedule", "schedule_text", "dependencies"},
    {"proof", "bounds"},
    {"msccl", "chakra"},
    {"packing", "ordering"},
    {"collectives"},
    {"simulation"},
    {"planning", "emulation", "probing"},
    {"overlap", "sparse"},
    {"groups"},
    {"strategies"},
    {"runtime"},
    {"torch"},
    {"training"},
    {"reproductions"},
    {"report"},
    {"cli"},
]


def test_the_surface_is_sorted_small_and_complete() -> None:
    assert sorted(weft.__all__) == weft.__all__
    assert len(weft.__all__) <= 32
    for name in weft.__all__:
        assert getattr(weft, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = weft.nothing


def test_every_error_of_ours_is_a_weft_error() -> None:
    errors = [getattr(weft, name) for name in weft.__all__ if name.endswith("Error")]
    assert len(errors) >= 6
    assert all(issubclass(error, weft.WeftError) for error in errors)


def _layer(module: str) -> int:
    part = module.split(".")[1] if "." in module else ""
    return next((i for i, names in enumerate(LAYERS) if part in names), -1)


def test_imports_point_down_only() -> None:
    for path in PACKAGE.rglob("*.py"):
        here = _layer("weft." + path.relative_to(PACKAGE).with_suffix("").as_posix().replace("/", "."))
        if path.parent == PACKAGE and path.stem in ("__init__", "__main__"):
            continue
        assert here >= 0, f"{path.name} belongs to no layer"
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                torch_may = path.relative_to(PACKAGE).parts[0] in ("runtime", "torch", "training")
                assert torch_may or not name.startswith("torch"), f"{path.name} imports torch"
                if name.startswith("weft."):
                    assert _layer(name) <= here, f"{path.relative_to(PACKAGE)} imports {name}, which lies above it"


@pytest.mark.parametrize("command", [["-c", "import weft"], ["-m", "weft", "--help"]])
def test_importing_and_helping_stay_cheap(command: list[str]) -> None:
    # What is loaded is asserted; the time is only printed, because a busy machine says nothing about us.
    begun = time.perf_counter()
    ran = subprocess.run([sys.executable, "-X", "importtime", *command], capture_output=True, text=True, check=True)
    print(f"{time.perf_counter() - begun:.3f} s")
    loaded = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in ran.stderr.splitlines() if "|" in line}
    assert not loaded & {"torch", "numba", "numpy", "scipy", "matplotlib", "yaml", "highspy"}
