"""Whether the schemas, types and expressions of a pipeline file are right, by Spark's own parser.

The parser is a Java class that needs no Spark session: a bare Java process with Spark's jars answers in a few seconds.
It is started only for a file with an expression, or with a schema that `ddl` does not recognise. Whether the fields and
functions of an expression exist is known when the pipeline runs. Called by `ottla pipeline validate`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.pipelines.connect.ddl import is_plain_schema, is_plain_type
from ottla.pipelines.connect.errors import SpecError

if TYPE_CHECKING:
    from ottla.pipelines.connect.spec import Pipeline, Sql

_SQLSTATE = re.compile(r" SQLSTATE: \w+")
_PLAIN_PATTERN = re.compile(
    r"(?:[A-Za-z0-9_-]|\\[.dwDW][*+?]?|[.][*+?]?|\((?:[A-Za-z0-9_|-]|\\[.dwDW][*+?]?|[.][*+?]?)+\)[*+?]?)+"
)
"""A regular expression that Java takes for sure: letters, dots, groups without groups."""
JAVA_OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m"]
"""For a process that lives for seconds."""


def check(pipeline: Pipeline, on_start: Callable[[int], None]) -> None:
    """`SpecError` with all that Spark's parser refuses; `on_start` hears how many texts it is started for.

    Raises `MissingDependency` where it has to be asked and there is no Spark or no Java.
    """
    unsure = [sql for sql in pipeline.sql() if not is_plain(sql)]
    if not unsure:
        return
    on_start(len(unsure))
    with _java() as jvm:
        parser = SparkParser(jvm)
        wrong = [(sql, said) for sql in unsure if (said := parser.complaint(sql)) is not None]
    if wrong:
        raise SpecError([problem for sql, said in wrong for problem in pipeline.wrong(sql.place, said).problems])


def is_plain(sql: Sql) -> bool:
    """Whether it is right for sure, without a question to Spark."""
    match sql.kind:
        case "schema":
            return is_plain_schema(sql.text)
        case "type":
            return is_plain_type(sql.text)
        case "pattern":
            return _PLAIN_PATTERN.fullmatch(sql.text) is not None
        case _:
            return False


class SparkParser:
    """Spark's parser in a Java process."""

    def __init__(self, jvm: Any) -> None:
        # An object of Scala is the one instance of a class with a dollar at the end.
        self._jvm = jvm
        self._parser = getattr(getattr(jvm.org.apache.spark.sql.catalyst.parser, "CatalystSqlParser$"), "MODULE$")

    def complaint(self, sql: Sql) -> str | None:
        """What is wrong, in Spark's words; None where nothing is."""
        match sql.kind:
            case "expression":
                return self._said(self._parser.parseExpression, sql.text)
            case "type":
                return self._said(self._parser.parseDataType, sql.text)
            case "query":
                return self._said(self._parser.parseQuery, sql.text)
            case "pattern":
                return self._said(self._jvm.java.util.regex.Pattern.compile, sql.text)
            case _:
                said = self._said(self._parser.parseTableSchema, sql.text)
                # Spark takes `a: int, b: string` for a schema too.
                if said is not None and self._said(self._parser.parseDataType, f"struct<{sql.text.strip()}>") is None:
                    return None
                return said

    def _said(self, parse: Callable[[str], object], text: str) -> str | None:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            parse(text)
        except Py4JJavaError as error:
            said = str(error.java_exception.getMessage())
        except PySparkException as error:  # in a process with a session, PySpark translates what Java raises
            said = str(error)
        else:
            return None
        return _SQLSTATE.sub("", said.strip().splitlines()[0])


@contextmanager
def _java() -> Iterator[Any]:
    """A Java process with Spark's classes, and nothing of Spark running."""
    from ottla.pipelines.java import find_java
    from ottla.pipelines.spark import require_spark

    require_spark()
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

    package = find_spec("pyspark")
    assert package is not None, "it was looked for"
    assert package.origin is not None, "likewise"
    jars = Path(os.environ.get("SPARK_HOME") or Path(package.origin).parent, "jars")
    port, token = launch_gateway(
        jarpath=str(next(jars.glob("py4j-*.jar"))), classpath=f"{jars}/*", javaopts=JAVA_OPTIONS, die_on_exit=True,
        java_path=str(find_java().home / "bin" / "java"), enable_auth=True,
    )  # fmt: skip
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
