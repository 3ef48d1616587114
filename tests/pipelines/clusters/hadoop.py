"""A YARN of one node on the loopback address: Hadoop's own ResourceManager and NodeManager.

`yarn` starts them and stops them, and sees to it that no container is left; it skips the test with the reason where
there is no Java, no Maven or no registry. The jars that Spark's package has of Hadoop are the half of it: what is
fetched is the servers, in the same version.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

from ottla.pipelines.spark import LOOPBACK
from tests.pipelines.clusters.processes import environment, running, spark_home
from tests.support.clients import eventually
from tests.support.maven import jars
from tests.support.server import free_ports

SERVER = "org.apache.hadoop.yarn.server"
BOUNCY_CASTLE = "1.82"
"""Certificates, which the ResourceManager makes even for nobody."""
MEMORY_MB = 3072
END_S = 30.0


@contextmanager
def yarn(directory: Path) -> Iterator[Path]:
    """The directory of its settings, which is what HADOOP_CONF_DIR is to be."""
    directory.mkdir(parents=True)
    settings = _settings(directory)
    conf = directory / "conf"
    _write(conf / "core-site.xml", {"hadoop.tmp.dir": str(directory / "tmp")})
    _write(conf / "yarn-site.xml", settings)
    port = int(settings["yarn.resourcemanager.address"].rpartition(":")[2])
    try:
        with (
            running(_command(f"{SERVER}.resourcemanager.ResourceManager", directory), directory / "rm.log", port),
            # Nobody waits for a node but an application, and YARN lets that wait until there is one.
            running(_command(f"{SERVER}.nodemanager.NodeManager", directory), directory / "nm.log"),
        ):
            yield conf
    finally:
        eventually(lambda: not _processes_in(directory), "the containers have ended", END_S)


def _settings(directory: Path) -> dict[str, str]:
    services = ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")
    return {
        **{
            f"yarn.resourcemanager.{name}": f"{LOOPBACK}:{port}"
            for name, port in zip(services, free_ports(5), strict=True)
        },
        # The one scheduler that has no file of settings of its own.
        "yarn.resourcemanager.scheduler.class": f"{SERVER}.resourcemanager.scheduler.fifo.FifoScheduler",
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "100",  # each step of an application waits for one
        **{f"yarn.nodemanager.{name}": f"{LOOPBACK}:0" for name in ("address", "localizer.address", "webapp.address")},
        "yarn.node-attribute.fs-store.root-dir": (directory / "attributes").as_uri(),
        "yarn.nodemanager.local-dirs": str(directory / "containers"),
        "yarn.nodemanager.log-dirs": str(directory / "logs"),
        "yarn.nodemanager.resource.memory-mb": str(MEMORY_MB),
        "yarn.nodemanager.resource.cpu-vcores": "4",
        "yarn.nodemanager.vmem-check-enabled": "false",  # a Java reserves far more than it uses
        "yarn.nodemanager.disk-health-checker.enable": "false",  # a disk that is nearly full will do
        # What containers have of the node's environment.
        "yarn.nodemanager.env-whitelist": "JAVA_HOME,JAVA_TOOL_OPTIONS,SPARK_LOCAL_IP",
    }


def _write(file: Path, settings: Mapping[str, str]) -> None:
    properties = "".join(
        f"<property><name>{name}</name><value>{escape(value)}</value></property>\n" for name, value in settings.items()
    )
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"<configuration>\n{properties}</configuration>\n", encoding="utf-8")


def _command(main: str, directory: Path) -> list[str]:
    of_spark = spark_home() / "jars"
    (client,) = of_spark.glob("hadoop-client-api-*.jar")
    version = client.stem.rpartition("-")[2]
    servers = jars(
        f"hadoop-yarn-{version}",
        ("org.apache.hadoop", "hadoop-client-minicluster", version),
        *(("org.bouncycastle", f"{name}-jdk18on", BOUNCY_CASTLE) for name in ("bcprov", "bcutil", "bcpkix")),
        transitive=False,
    )
    needed = [
        path
        for name in ("hadoop-client", "slf4j-api", "log4j", "jcl-over-slf4j")
        for path in of_spark.glob(f"{name}-*.jar")
    ]
    temporary = directory / "tmp"
    temporary.mkdir(exist_ok=True)
    java = Path(environment()["JAVA_HOME"], "bin", "java")
    path = os.pathsep.join([str(directory / "conf"), servers, *map(str, needed)])
    return [str(java), "-Xmx256m", f"-Djava.io.tmpdir={temporary}", "-cp", path, main]


def _processes_in(directory: Path) -> list[str]:
    """The command of each process that has its working directory below this one, as containers have."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if directory in Path(os.readlink(process / "cwd")).parents:
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue  # it has ended, or is somebody else's
    return found
