"""A home for Spark whose Python workers start in a third of the time.

Spark puts `python/lib/pyspark.zip` of its home in front of every worker's path, and an archive of sources is compiled
anew by each process that imports from it: a second of CPU a worker, measured as 1.44 s against 0.44 s, and Spark starts
several workers a query. The workers of one machine run an interpreter that has the same PySpark installed, compiled
once. So `light_home` is a directory of links, in the user's cache, to what is needed of the installed Spark but for the
archive.

Called by `spark`, for a master on this machine only: a cluster's workers need the archive.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ottla.pipelines.java import cache_dir

LINKED = ("bin", "conf", "jars", "sbin")


def light_home(package: Path) -> Path | None:
    """The home to set `SPARK_HOME` to; None where the package is no whole Spark, and is best left alone."""
    if not (package / "bin" / "spark-submit").is_file() or not (package / "jars").is_dir():
        return None
    home = cache_dir() / f"spark-{hashlib.sha256(os.fsencode(package)).hexdigest()[:16]}"
    home.mkdir(parents=True, exist_ok=True)
    for name in LINKED:
        link, target = home / name, package / name
        if target.is_dir() and not link.exists():
            # Renamed into place, over a link that leads nowhere too: other processes do the same.
            fresh = home / f"{name}.{os.getpid()}"
            fresh.symlink_to(target)
            fresh.replace(link)
    return home
