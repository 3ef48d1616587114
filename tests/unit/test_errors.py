"""The errors are Kafka's: codes, names and whether to retry, as in kafka-facts/errors.json."""

from __future__ import annotations

import inspect
import json
import pickle
from typing import Any

import pytest

from ottla import errors
from ottla.errors import KafkaError, NotLeaderOrFollower, RetriableError, TopicAlreadyExists, error_class
from tests.support.golden import GOLDEN


def facts() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((GOLDEN / "kafka-facts" / "errors.json").read_text())
    return [row for row in rows if row["code"] != errors.NONE]


def declared() -> list[type[KafkaError]]:
    classes = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, KafkaError)]
    return [found for found in classes if found not in (KafkaError, RetriableError, errors.InternalError)]


def test_every_code_has_a_class_with_kafkas_name_and_retriability() -> None:
    expected = [(row["code"], row["name"], row["retriable"]) for row in facts()]
    assert [(found.code, found.name, found.retriable) for found in declared()] == expected


def test_a_retriable_error_can_be_caught_as_one() -> None:
    for row in facts():
        assert issubclass(error_class(row["code"]), RetriableError) == row["retriable"], row["name"]


def test_every_class_says_what_went_wrong_in_one_sentence() -> None:
    for found in declared():
        message = found().message
        assert message == found.__doc__
        assert message.endswith(".")
        assert "\n" not in message


def test_every_message_differs_from_the_others() -> None:
    messages = [found().message for found in declared()]
    assert len(set(messages)) == len(messages)


def test_an_instance_may_carry_a_message_of_its_own() -> None:
    assert str(TopicAlreadyExists("Topic 'orders' already exists.")) == "Topic 'orders' already exists."
    assert str(TopicAlreadyExists()) == "A topic of that name already exists."


def test_a_code_leads_back_to_its_class() -> None:
    assert error_class(6) is NotLeaderOrFollower
    assert error_class(-1) is errors.UnknownServerError


def test_an_unknown_code_is_an_unknown_server_error_that_keeps_the_code() -> None:
    found = error_class(32_000)
    assert issubclass(found, errors.UnknownServerError)
    assert (found.code, found.name, found.retriable) == (32_000, "UNKNOWN_SERVER_ERROR", False)
    assert str(found()) == "Unknown error code 32000."
    assert error_class(32_000) is found
    assert error_class(-1) is errors.UnknownServerError


def test_no_error_has_no_class() -> None:
    with pytest.raises(AssertionError):
        error_class(errors.NONE)


def test_a_subclass_without_a_code_shares_its_parents() -> None:
    class StaleLeader(NotLeaderOrFollower):
        """Another broker has been elected."""

    assert (StaleLeader.code, StaleLeader.name) == (6, "NOT_LEADER_OR_FOLLOWER")
    assert error_class(6) is NotLeaderOrFollower


def test_an_error_survives_pickling() -> None:
    copy = pickle.loads(pickle.dumps(NotLeaderOrFollower("moved to 3")))
    assert isinstance(copy, NotLeaderOrFollower)
    assert str(copy) == "moved to 3"
