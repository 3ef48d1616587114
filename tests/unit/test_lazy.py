"""`ottla/lazy.py`: names that are imported when they are first asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ottla.client
import ottla.testing


def test_a_module_is_imported_with_the_first_name_that_is_asked_of_it() -> None:
    program = (
        "import sys, ottla.testing\n"
        "assert 'ottla.testing.cluster' not in sys.modules\n"
        "assert 'Cluster' in dir(ottla.testing)\n"
        "first = ottla.testing.Cluster\n"
        "assert 'ottla.testing.cluster' in sys.modules\n"
        "assert vars(ottla.testing)['Cluster'] is first\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_name_that_is_not_there_is_told_as_python_tells_it() -> None:
    with pytest.raises(AttributeError, match=r"module 'ottla\.client' has no attribute 'Konsumer'"):
        _ = ottla.client.Konsumer  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="Konsumer"):
        exec("from ottla.client import Konsumer")
