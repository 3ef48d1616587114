"""A Spark session that works out of the box: `ottla.pipelines.session()`.

On one machine it finds or brings a Java, starts Spark in this interpreter's own Python with `format("ottla")` within
reach, quietly, and with settings meant for one machine. Under `spark-submit`, with a cluster's master or over Spark
Connect the same call leaves to the cluster what is the cluster's: there, `ottla[spark]` is installed where the workers
run.

Settings, strongest first: the caller's, then those of a session that exists already, then `defaults`.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.pipelines.errors import MissingDependency, PipelineError
from ottla.pipelines.java import find_java
from ottla.pipelines.spark_home import light_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Value = str | int | float | bool

LOCAL = re.compile(r"local(\[.*\])?$")
LOOPBACK = "127.0.0.1"
LOGGING = Path(__file__).resolve().with_name("log4j2.properties")
EVERYWHERE: dict[str, str | bool] = {
    # A topic's timestamps are instants. With one time zone a window begins at the same instant on the machine
    # that reads the result as on the one that made it.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": True,
    # Without it Spark refuses whatever takes filters, as `format("ottla")` does with the option `pushDownPredicate`.
    "spark.sql.python.filterPushdown.enabled": True,
    # State of any size, checkpointed as what changed; `transformWithState` knows no other store.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": True,
}
"""Settings that a running session takes as well."""
CONNECT = {"grpcio": "grpc", "grpcio-status": "grpc_status", "zstandard": "zstandard"}
"""The packages that a session over Spark Connect needs besides, and their modules."""


def session(
    app_name: str = "ottla",
    *,
    master: str | None = None,
    remote: str | None = None,
    java: str | os.PathLike[str] | None = None,
    ui: bool = False,
    conf: Mapping[str, Value] | None = None,
    **spark_conf: Value,
) -> SparkSession:
    """A Spark session, made now or the one that there is.

    `master` is a Spark master; without one it is what `spark-submit` was given, and `local[*]` otherwise. `remote` is
    the address of a Spark Connect server (`sc://host`), instead of a master; `local[2]` is one that is started for this
    program. `java` is the home of the Java to use, instead of the one that is found. `ui` starts Spark's web pages.
    `conf` has Spark's own settings; so has the rest, with underscores: `session(spark_sql_shuffle_partitions=8)`.

    Raises `MissingDependency` where Spark is not installed or no Java is to be had.
    """
    require_spark()
    from pyspark.sql import SparkSession, is_remote

    if master is not None and remote is not None:
        raise PipelineError("a session has a master or a remote, and was given both")
    chosen = {**(conf or {}), **{_dotted(name): value for name, value in spark_conf.items()}}
    if remote is None and master is None:
        remote = os.environ.get("SPARK_REMOTE")
    if remote is not None:
        require_connect()
    running = SparkSession.getActiveSession()
    if running is not None and is_remote():
        # Spark's builder would ask for the address again, which this caller need not know.
        for name, value in chosen.items():
            running.conf.set(name, value if isinstance(value, bool) else str(value))
        return running
    if running is None and remote is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        master = master or os.environ.get("MASTER") or "local[*]"
    # The remote `local[...]` is a Spark Connect server that Spark starts here, below this process.
    started = master if remote is None else remote if LOCAL.match(remote) else None
    if running is None and started is not None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        _prepare(started, java)
        chosen = {**defaults(started, ui=ui), **chosen}
    builder = SparkSession.builder.appName(app_name)
    if remote is not None:
        builder = builder.remote(remote)
    elif master is not None and running is None:
        builder = builder.master(master)
    with warnings.catch_warnings():
        if remote is not None and started is not None:
            # The server is started with all of them, and then asked to take each once more.
            warnings.filterwarnings("ignore", r"Failed to set spark\.[^\n]*CANNOT_MODIFY_CONFIG")
        made: SparkSession = builder.config(map=dict(chosen)).getOrCreate()
    if running is None and started is None:
        _complete(made, chosen)
    return made


def defaults(master: str, *, ui: bool = False) -> Mapping[str, Value]:
    """What a session is given unless its caller says otherwise."""
    found: dict[str, Value] = {**EVERYWHERE}
    if LOCAL.match(master):
        found |= {
            # The host's own name may resolve to nothing, or to an address that a laptop has lost since.
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            # Each micro-batch pays for every partition of every shuffle: 200, Spark's own, is for clusters.
            "spark.sql.shuffle.partitions": _cores(master),
            "spark.ui.enabled": ui,
            "spark.ui.showConsoleProgress": False,
        }
        if "SPARK_CONF_DIR" not in os.environ:  # an operator's own logging stays
            found["spark.driver.extraJavaOptions"] = f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"
    return found


def _complete(made: SparkSession, chosen: Mapping[str, Value]) -> None:
    """What `spark-submit` or a server was told is known only now: the rest of the defaults, those that a running
    session takes."""
    told = made.conf.getAll
    for name, value in EVERYWHERE.items():
        if name not in chosen and name not in told:
            made.conf.set(name, value)


def require_spark() -> None:
    """Says in one line what to install, where Spark is missing."""
    missing = [name for name in ("pyspark", "pyarrow", "pandas") if find_spec(name) is None]
    if missing:
        raise MissingDependency(f"pipelines need {' and '.join(missing)}: pip install 'ottla[spark]'")


def require_connect() -> None:
    """Says in one line what to install, where what Spark Connect speaks through is missing."""
    missing = [package for package, module in CONNECT.items() if find_spec(module) is None]
    if missing:
        raise MissingDependency(f"Spark Connect needs {' and '.join(missing)}: pip install 'ottla[spark-connect]'")


def _prepare(master: str, java: str | os.PathLike[str] | None) -> None:
    """What a Java process and the Python workers below it inherit has to be there before the process is started."""
    os.environ["JAVA_HOME"] = str(find_java(java).home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not LOCAL.match(master):
        # No PYSPARK_DRIVER_PYTHON: it is what executors run `format("ottla")` in, rather than PYSPARK_PYTHON, and a
        # path of this machine is nothing to a node that keeps its Python elsewhere.
        return
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    if os.environ["PYSPARK_PYTHON"] == sys.executable and "SPARK_HOME" not in os.environ:
        package = find_spec("pyspark")
        assert package is not None, "a session needs it, and has looked for it"
        if package.origin and (home := light_home(Path(package.origin).resolve().parent)):
            os.environ["SPARK_HOME"] = str(home)
    # A checkout that is used without being installed is not on the workers' path.
    root = str(Path(__file__).resolve().parent.parent.parent)
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in paths and not root.endswith("-packages"):
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, paths)])


def _cores(master: str) -> int:
    """How many tasks `local[...]` runs at once."""
    told = re.match(r"local\[(\d+)", master)
    if told:
        return max(1, int(told[1]))
    return 1 if master == "local" else os.cpu_count() or 1


def _dotted(name: str) -> str:
    """`spark_sql_shuffle_partitions` as Spark spells it; no setting of Spark's own has an underscore."""
    return name if "." in name else name.replace("_", ".")
