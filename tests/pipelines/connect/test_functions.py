"""Functions of pipeline files, as a user runs them: by the command, from another directory, on separate executors.

Each form of the page: of a file, of a module beside it, of one that is installed (`copy` is), and the short form.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipelines.clusters.program import SHORT_LIVED

MASTER = "local-cluster[1,1,1024]"
"""The executor is a process of its own, with its own directory."""
SPARK = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}

FILES = {
    "clean-orders.py": '''\
import threading
from dataclasses import replace

from shop.prices import Price

LOCK = threading.Lock()


def clean(record):
    from late import country_of  # imported by the worker only

    with LOCK:
        price = replace(Price(record["amount"]), cents=record["amount"] + 1)
    return {"id": record["id"], "amount": price.cents, "country": country_of(record["country"])}


def wide(df):
    from pyspark.sql import functions as F

    from shop import doubled

    twice = F.udf(lambda amount: doubled(amount), "bigint")
    return df.withColumn("twice", twice("amount"))


def same(record):
    return record
''',
    "shouting.py": "from late import country_of\n\n\ndef shout(record):\n"
    "    return record | {'country': country_of(record['country']) + '!'}\n",
    "late.py": "def country_of(text):\n    return text.upper()\n",
    "shop/__init__.py": "from .prices import Price\n\n\ndef doubled(cents):\n    return Price(cents * 2).cents\n",
    "shop/prices.py": "from dataclasses import dataclass\n\n\n@dataclass\nclass Price:\n    cents: int\n",
}  # fmt: skip
YAML = f"""\
name: in-yaml
source: {{type: csv, path: PATH/in, schema: "id BIGINT, amount BIGINT, country STRING"}}
transforms:
  - python: {{function: "clean-orders.py:clean", schema: "id BIGINT, amount BIGINT, country STRING"}}
  - python: {{function: "shouting:shout"}}
  - python: clean-orders.py:same
  - python: copy:copy
  - dataframe: {{function: "clean-orders.py:wide"}}
sink: {{type: json, path: PATH/yaml}}
spark: {json.dumps(SPARK)}
"""
PYTHON = f"""\
from pathlib import Path

from late import country_of
from ottla.pipelines.connect import Pipeline
from shouting import shout

HERE = Path(__file__).resolve().parent


def clean(record):
    return record | {{"amount": record["amount"] + 1, "country": country_of(record["country"])}}


def wide(df: "DataFrame"):
    from pyspark.sql import functions as F

    return df.withColumn("twice", F.udf(lambda amount: amount * 2, "bigint")("amount"))


pipeline = Pipeline(
    "in-python",
    source={{"type": "csv", "path": f"{{HERE}}/in", "schema": "id BIGINT, amount BIGINT, country STRING"}},
    transforms=[clean, shout, wide],
    sink={{"type": "json", "path": f"{{HERE}}/python"}},
    spark={SPARK},
)
"""


@pytest.mark.timeout(400)  # two Sparks, each with an executor of its own
def test_functions_of_files_and_modules_run_on_executors_wherever_the_command_is_called(tmp_path: Path) -> None:
    here, elsewhere = tmp_path / "etl", tmp_path / "elsewhere"
    elsewhere.mkdir()
    files = FILES | {"orders.yaml": YAML.replace("PATH", str(here)), "orders.py": PYTHON}
    for name, text in (files | {"in/a.csv": "id,amount,country\n1,10,cz\n2,20,de\n"}).items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text)
    command = [str(Path(sys.executable).with_name("ottla")), "pipeline", "run", "--once", "--master", MASTER]
    environment = {**os.environ, **SHORT_LIVED, "XDG_DATA_HOME": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1"}
    started = [
        subprocess.Popen(
            [*command, f"../etl/{name}"], cwd=elsewhere, env=environment,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for name in ("orders.yaml", "orders.py")
    ]  # fmt: skip
    try:
        answers = [(*process.communicate(timeout=350), process.returncode) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    for shown, complaints, code in answers:
        assert code == 0, complaints[-3000:]
        assert shown.splitlines()[-1].endswith("done after 2 records")
    for sink in ("yaml", "python"):
        lines = [line for part in (here / sink).glob("part-*") for line in part.read_text().splitlines()]
        assert sorted(map(json.loads, lines), key=lambda row: row["id"]) == [
            {"id": 1, "amount": 11, "country": "CZ!", "twice": 22},
            {"id": 2, "amount": 21, "country": "DE!", "twice": 42},
        ]
