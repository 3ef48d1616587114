"""Compile ottla/records/csrc into the module `ottla.records.native`: `python build_native.py`.

Needs setuptools and a C compiler. The module appears by a rename, whole or not at all, so that a process that runs the
old one keeps it. Arguments are flags for the compiler and the linker, in place of the usual ones.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent
PACKAGE = Path("ottla", "records")
FLAGS = ["-std=c11", "-O3", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-missing-field-initializers"]


def build(flags: list[str] | None = None, *, target: Path = ROOT / PACKAGE) -> Path:
    """Compile, and return where the module now is. Raises what setuptools raises."""
    from setuptools import Distribution, Extension  # type: ignore[import-untyped]

    with tempfile.TemporaryDirectory() as scratch:
        extension = Extension(
            "native",
            [str(path) for path in sorted((ROOT / PACKAGE / "csrc").glob("*.c"))],
            include_dirs=[str(ROOT / PACKAGE / "csrc")],
            extra_compile_args=FLAGS if flags is None else flags,
            extra_link_args=[] if flags is None else flags,
        )
        command = Distribution({"name": "native", "ext_modules": [extension]}).get_command_obj("build_ext")
        command.build_lib = command.build_temp = scratch
        command.ensure_finalized()
        command.run()
        made = Path(command.get_ext_fullpath("native"))
        beside = target / f".{made.name}.{os.getpid()}"
        shutil.copy(made, beside)
        return beside.rename(target / made.name)


if __name__ == "__main__":
    print(build(sys.argv[1:] or None))
