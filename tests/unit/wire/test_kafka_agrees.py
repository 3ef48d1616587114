"""Kafka's own classes read what we write and write the same; and where we refuse what Kafka reads, it is on purpose.

`KafkaMessages.java` puts the questions to them; one process answers all questions of a test.
"""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest

from ottla.wire import DecodeError, decode_prefix, encode, message_class, message_names
from tests.support.golden import golden_messages
from tests.support.kafka import run_java
from tests.unit.wire.random_messages import random_message
from tests.unit.wire.test_bad_input import SEED, mutate

pytestmark = pytest.mark.java

QUESTIONER = Path(__file__).with_name("KafkaMessages.java")

# Kafka lets these pass, or does not look. We refuse them: what was meant cannot be known, or cannot be written back.
STRICTER = [
    r"tags must ascend",  # Kafka reads such tags, and fails to write them
    r"that its tag gives it",  # Kafka does not look at the size of a tagged field that it knows
    r"^tag \d+ has \d+ bytes",  # the same, where the size reaches beyond the end
    r"is not UTF-8",  # Kafka puts replacement characters in
    r"has the negative length",  # Kafka takes every negative length for null
    r"has (2147483[6-9]|21474[89]|214[89]|21[5-9]|2[2-9]|[34])\d+ ",  # lengths from 2^31 are negative in Java
    r"longer than 32 bits",  # Kafka drops the bits above
]


def ask(questions: list[tuple[str, int, bytes]], directory: Path) -> list[str]:
    """Kafka's answers, in the order of the questions."""
    asked, answered = directory / "questions", directory / "answers"
    asked.write_text("".join(f"{name} {version} {data.hex()}\n" for name, version, data in questions))
    run = run_java(str(QUESTIONER), [str(asked), str(answered)])
    assert run.returncode == 0, run.stderr
    answers = answered.read_text().splitlines()
    assert len(answers) == len(questions), run.stderr
    return answers


def test_kafka_reads_what_we_write_and_writes_the_same(tmp_path: Path) -> None:
    """Random messages of every class and version, with unknown tags and with records, which golden messages lack."""
    questions = []
    for name in message_names():
        cls = message_class(name)
        for version in range(cls.schema.versions.first, cls.schema.versions.last + 1):
            chance = Random(f"{SEED}/{name}/{version}")
            questions += [(name, version, encode(random_message(cls, version, chance), version)) for _ in range(4)]
    wrong = []
    for (name, version, data), answer in zip(questions, ask(questions, tmp_path), strict=True):
        if answer != f"ok {len(data)} {data.hex()}":
            wrong.append(f"OTTLA_SEED={SEED} {name} v{version}: {data.hex()}: {answer}")
    assert len(questions) == 4 * 723
    assert not wrong, "\n".join(wrong)


def test_kafka_and_we_agree_on_mutated_messages_but_for_what_we_refuse_on_purpose(tmp_path: Path) -> None:
    questions = []
    for line in golden_messages():
        chance = Random(f"{SEED}/{line['name']}/{line['version']}/kafka")
        data = bytes.fromhex(line["hex"])
        questions += [(line["name"], line["version"], mutate(data, chance)) for _ in range(6)]
    wrong = []
    counts = {"both read": 0, "both refuse": 0, "refused on purpose": 0}
    for (name, version, data), answer in zip(questions, ask(questions, tmp_path), strict=True):
        about = f"OTTLA_SEED={SEED} {name} v{version}: {data.hex()}: {answer}"
        try:
            message, end = decode_prefix(message_class(name), version, data)
        except DecodeError as error:
            if answer.startswith("error"):
                counts["both refuse"] += 1
            elif any(re.search(reason, error.reason) for reason in STRICTER):
                counts["refused on purpose"] += 1
            else:
                wrong.append(f"{about}: refused: {error}")
            continue
        if answer == f"ok {end} {encode(message, version).hex()}":
            counts["both read"] += 1
        else:
            wrong.append(f"{about}: read {end} bytes and written as {encode(message, version).hex()}")
    assert not wrong, "\n".join(wrong)
    assert min(counts.values()) > 50, counts
