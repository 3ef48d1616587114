"""What the everyday tools share: options that all of them have, one line for what goes wrong, completion, output.

Promises: a mistake in the options and an error of the cluster are one line and exit code 1, never a trace; nothing of
the client is loaded before there is something to ask it, so that `--help` and mistakes are answered at once; a reader
that goes away (`| head`) ends the tool in silence. Called by the modules of the tools.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ottla.client import Admin

F = TypeVar("F", bound=Callable[..., Any])

BOOTSTRAP_SERVER = "localhost:9092"
COMPLETION_TIMEOUT_S = 1.0
INTERRUPTED = 130

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")


class Refused(click.ClickException):
    """One line on standard error, and exit code 1."""

    exit_code = 1

    def show(self, file: object = None) -> None:
        click.echo(self.format_message(), file=sys.stderr)


class Tool(click.Command):
    """A command whose mistakes and failures are one line."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise Refused(f"{error.format_message()} See `{ctx.command_path} --help`.") from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            answer = super().invoke(ctx)
            sys.stdout.flush()
            return answer
        except BrokenPipeError:
            give_up_stdout()  # whoever read this has read enough
            ctx.exit(0)
        except KeyboardInterrupt:
            ctx.exit(INTERRUPTED)
        except Exception as error:
            if not _is_expected(error):
                raise
            raise Refused(one_line(error)) from None


def give_up_stdout() -> None:
    """Nobody reads the output any more: Python would fail once more when it flushes what is left at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_expected(error: Exception) -> bool:
    """Errors of Kafka, of the machine, of settings: what a person can do something about."""
    from ottla.errors import KafkaError

    return isinstance(error, KafkaError | OSError)


def one_line(error: BaseException) -> str:
    """What an error says, in one line."""
    text = str(error) or type(error).__name__
    return " ".join(text.split("\n"))


# Options


def bootstrap_option(command: F) -> F:
    return click.option(
        "--bootstrap-server",
        default=BOOTSTRAP_SERVER,
        show_default=True,
        metavar="HOST:PORT,...",
        help="The brokers to connect to.",
    )(command)


def command_config_option(command: F) -> F:
    return click.option(
        "--command-config", metavar="FILE", type=click.Path(), help="Settings for the client, a property file."
    )(command)


def output_option(command: F) -> F:
    return click.option(
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="Kafka's text, or JSON.",
    )(command)


def version_option(command: F) -> F:
    from ottla import __version__

    return click.version_option(__version__, message="%(version)s", help="Show the version.")(command)


def exactly_one(given: Mapping[str, object], message: str) -> str:
    """The name of the one option that is set; `Refused` with Kafka's words unless it is one."""
    chosen = [name for name, value in given.items() if value]
    if len(chosen) != 1:
        raise Refused(message)
    return chosen[0]


def not_together(used: str, is_used: object, others: Mapping[str, object]) -> None:
    """`Refused` when an option is used with one that it cannot be used with."""
    if is_used:
        for name, value in others.items():
            if value:
                raise Refused(f'Option "[{used}]" can\'t be used with option "[{name}]"')


def read_settings_file(path: str | None) -> dict[str, str]:
    """The settings of a property file; none without one."""
    if path is None:
        return {}
    from ottla.config import MalformedEscape, read_properties

    try:
        with open(path, encoding="latin-1") as file:
            return dict(read_properties(file.read()))
    except OSError as error:
        raise Refused(f"Cannot read {path}: {error.strerror}") from None
    except MalformedEscape as error:
        raise Refused(f"Cannot read {path}: {error}") from None


def read_key_values(given: Iterable[str], *, allow_empty: bool = True) -> dict[str, str]:
    """`NAME=VALUE` each; the value may have more of them."""
    found = {}
    for item in given:
        name, _, value = item.partition("=")
        if not value and not allow_empty:
            raise Refused(f"Missing value for key {name}")
        found[name] = value
    return found


@contextmanager
def admin_of(bootstrap_server: str | None, command_config: str | None = None, **more: object) -> Iterator[Admin]:
    """An admin client for the time of a command; without a server, `more` says where to begin."""
    from ottla.client.config import FIRST_CONTACT
    from ottla.client.quiet import quiet_client

    settings: dict[str, object] = {**FIRST_CONTACT, **more, **read_settings_file(command_config)}
    if bootstrap_server is not None:
        settings["bootstrap.servers"] = bootstrap_server
    with quiet_client():
        from ottla.client import Admin

        with Admin(settings) as admin:
            yield admin


# Topics by pattern


class IncludeList:
    """Topics by a regular expression, or several with commas between, as Kafka's tools take them."""

    def __init__(self, text: str) -> None:
        pattern = re.sub(r"[\"']+$", "", re.sub(r"^[\"']+", "", text.strip().replace(",", "|").replace(" ", "")))
        try:
            self._pattern = re.compile(pattern)
        except re.error:
            raise Refused(f"{pattern} is an invalid regex.") from None

    def allows(self, topic: str, *, exclude_internal: bool = False) -> bool:
        return self._pattern.fullmatch(topic) is not None and not (exclude_internal and topic in INTERNAL_TOPICS)


# Output


def print_json(value: object) -> None:
    """One JSON document a line."""
    click.echo(json.dumps(value, ensure_ascii=False))


# Names as Java has them

_JAVA_NAMES = {
    -1: "UnknownServerException", 2: "CorruptRecordException", 7: "TimeoutException", 10: "RecordTooLargeException",
    11: "ControllerMovedException", 12: "OffsetMetadataTooLarge", 18: "RecordBatchTooLargeException",
    29: "TopicAuthorizationException", 30: "GroupAuthorizationException", 31: "ClusterAuthorizationException",
    36: "TopicExistsException", 40: "InvalidConfigurationException", 45: "OutOfOrderSequenceException",
    46: "DuplicateSequenceException", 49: "InvalidPidMappingException", 50: "InvalidTxnTimeoutException",
    53: "TransactionalIdAuthorizationException", 56: "KafkaStorageException", 58: "SaslAuthenticationException",
    61: "DelegationTokenDisabledException", 64: "UnsupportedByAuthenticationException",
    65: "DelegationTokenAuthorizationException", 68: "GroupNotEmptyException",
    97: "PrincipalDeserializationException", 106: "FetchSessionTopicIdException", 128: "InvalidRegularExpression",
}  # fmt: skip
"""Where the class that Kafka has for an error code is not named after ours."""


def java_name(error: BaseException) -> str:
    """The name of the class that Kafka's clients raise for an error."""
    from ottla.client.errors import KafkaTimeout
    from ottla.errors import KafkaError

    if isinstance(error, KafkaTimeout):
        return "org.apache.kafka.common.errors.TimeoutException"
    if not isinstance(error, KafkaError):
        return type(error).__name__
    name = type(error).__name__
    name = _JAVA_NAMES.get(error.code) or (name if name.endswith("Exception") else f"{name}Exception")
    return f"org.apache.kafka.common.errors.{name}"


def java_text(error: BaseException) -> str:
    """An error as Java prints it: its class and what it says."""
    return f"{java_name(error)}: {one_line(error)}"


# Completion


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Topics of the cluster that the line so far names; none when it does not answer at once."""
    return _complete(ctx, incomplete, lambda admin: list(admin.list_topics(timeout=COMPLETION_TIMEOUT_S)))


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Groups, likewise."""
    return _complete(
        ctx, incomplete, lambda admin: [one.group_id for one in admin.list_groups(timeout=COMPLETION_TIMEOUT_S)]
    )


def _complete(ctx: click.Context, incomplete: str, names: Callable[[Admin], list[str]]) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from ottla.errors import KafkaError

    server = ctx.params.get("bootstrap_server") or BOOTSTRAP_SERVER
    try:
        with admin_of(server, ctx.params.get("command_config")) as admin:
            found = names(admin)
    except (KafkaError, Refused, OSError):
        return []  # a shell that waits for an answer is not the place for an error
    return [CompletionItem(name) for name in sorted(found) if name.startswith(incomplete)]
