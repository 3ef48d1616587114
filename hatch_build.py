"""Wheels carry csrc compiled where there is a C compiler, and are pure Python where there is none."""

from __future__ import annotations

import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeHook(BuildHookInterface):  # type: ignore[type-arg]
    """Compiles before a wheel is put together. An editable install is left alone: there `make` compiles."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            return
        sys.path.insert(0, self.root)
        from build_native import build

        try:
            made = build()
        except Exception as error:  # noqa: BLE001 - setuptools raises what it likes, and the plain twins do for all of it
            self.app.display_warning(f"csrc is not compiled, the plain Python twins will be used: {error}")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["artifacts"].append(str(made.relative_to(self.root)))
