"""`ottla configs`: show and change settings of topics, brokers, their loggers, groups, client metrics, and quotas and
passwords of users, clients and addresses; with the options and words of `kafka-configs`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla.cli.java_order import fitted_string_order, map_order, string_hash, string_order
from ottla.cli.tool import (
    BOOTSTRAP_SERVER,
    Refused,
    Tool,
    admin_of,
    command_config_option,
    complete_groups,
    complete_topics,
    java_text,
    not_together,
    output_option,
    print_json,
    read_settings_file,
    version_option,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client import Admin
    from ottla.client.admin import ConfigEntry, QuotaEntity, Quotas

TYPES = ("topics", "clients", "users", "brokers", "ips", "client-metrics", "groups", "broker-loggers")
FLAGS = {
    "topic": "topics", "client": "clients", "user": "users", "broker": "brokers", "broker_logger": "broker-loggers",
    "ip": "ips", "client_metrics": "client-metrics", "group": "groups",
}  # fmt: skip
DEFAULT_FLAGS = {
    "client_defaults": "clients", "user_defaults": "users", "broker_defaults": "brokers", "ip_defaults": "ips",
}  # fmt: skip
HAS_DEFAULTS = {"users", "clients", "brokers", "ips"}
QUOTAS = {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
IP_QUOTAS = {"connection_creation_rate"}
QUOTA_KINDS = {"users": "user", "clients": "client-id", "ips": "ip"}
SCRAM_ITERATIONS = 4096
SCRAM_ITERATIONS_MIN = 4096
CREDENTIAL = re.compile(r"(?:iterations=(-?[0-9]*),)?password=(.*)", re.DOTALL)
OUTSIDE_BRACKETS = r"(?=[^\]]*(?:\[|$))"


class Entity(NamedTuple):
    """What settings are of: its type, and its name; empty for the default, None when none was given."""

    type: str
    name: str | None


class ConfigsTool(Tool):
    """Remembers in which order names and defaults were given, because types and names belong together by it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["arguments"] = " ".join(args)
        ctx.meta["order"] = [word.partition("=")[0] for word in args if re.match(r"--entity-(name|default)(=|$)", word)]
        return super().parse_args(ctx, args)


@click.command(cls=ConfigsTool)
@click.option(
    "--bootstrap-server", metavar="HOST:PORT,...", help=f"The brokers to connect to. [default: {BOOTSTRAP_SERVER}]"
)
@click.option("--bootstrap-controller", metavar="HOST:PORT,...", help="The controllers to connect to, instead.")
@command_config_option
@click.option("--describe", is_flag=True, help="Show settings.")
@click.option("--alter", is_flag=True, help="Change settings.")
@click.option("--all", "all", is_flag=True, help="Show all settings, and not only those that were changed.")
@click.option("--entity-type", multiple=True, metavar="TYPE", help=f"One of {', '.join(TYPES)}.")
@click.option("--entity-name", multiple=True, metavar="NAME", help="The name; brokers have ids.")
@click.option("--entity-default", is_flag=True, help="What holds for all that have nothing of their own.")
@click.option("--add-config", metavar="K=V,...", help="Settings to set; [a,b] is a value with commas.")
@click.option("--add-config-file", metavar="FILE", type=click.Path(), help="Settings to set, from a property file.")
@click.option("--delete-config", multiple=True, metavar="K,...", help="Settings to take back.")
@click.option("--topic", metavar="TOPIC", shell_complete=complete_topics, help="A topic.")
@click.option("--client", metavar="ID", help="A client id.")
@click.option("--client-defaults", is_flag=True, help="All clients.")
@click.option("--user", metavar="NAME", help="A user.")
@click.option("--user-defaults", is_flag=True, help="All users.")
@click.option("--broker", metavar="ID", help="A broker.")
@click.option("--broker-defaults", is_flag=True, help="All brokers.")
@click.option("--broker-logger", metavar="ID", help="The loggers of a broker.")
@click.option("--ip", metavar="IP", help="An address.")
@click.option("--ip-defaults", is_flag=True, help="All addresses.")
@click.option("--group", metavar="GROUP", shell_complete=complete_groups, help="A group.")
@click.option("--client-metrics", metavar="NAME", help="A subscription of client metrics.")
@output_option
@version_option
@click.pass_context
def command(ctx: click.Context, /, **options: Any) -> None:
    """Show and change settings of topics, brokers, groups, clients and users.

    \b
    ottla configs --describe --topic orders
    ottla configs --alter --topic orders --add-config retention.ms=86400000,cleanup.policy=[compact,delete]
    ottla configs --alter --user alice --add-config producer_byte_rate=1048576
    """
    entities = check_options(options, ctx.meta["order"])
    controller = options["bootstrap_controller"]
    more = {"bootstrap.controllers": controller} if controller else {}
    server = None if controller else options["bootstrap_server"] or BOOTSTRAP_SERVER
    from ottla.errors import KafkaError

    try:
        with admin_of(server, options["command_config"], **more) as admin:
            if options["alter"]:
                if any(entity.name is None for entity in entities):
                    raise Refused("An entity name must be specified for every entity type")
                alter(admin, entities, options)
            else:
                describe(admin, entities, options)
    except KafkaError as error:
        raise Refused(
            f"Error while executing config command with args '{ctx.meta['arguments']}': {java_text(error)}"
        ) from None


# Options


def check_options(options: Mapping[str, Any], order: Iterable[str]) -> list[Entity]:
    """What the settings are of; `Refused` for what makes no sense together, in Kafka's words."""
    if options["alter"] == options["describe"]:
        raise Refused("Command must include exactly one action: --describe, --alter")
    changes = {"add-config": options["add_config"], "delete-config": options["delete_config"]}
    not_together("describe", options["describe"], changes)
    types, names = _types_and_names(options, order)
    twice = [one for index, one in enumerate(types) if one in types[:index]]
    if twice:
        raise Refused(f"Duplicate entity type(s) specified: {','.join(twice)}")
    for one in types:
        if one not in TYPES:
            raise Refused(
                f"Invalid entity type {one}, the entity type must be one of {', '.join(TYPES)} with a "
                "--bootstrap-server or --bootstrap-controller argument"
            )
    if not types:
        raise Refused("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {"users", "clients"}:
        raise Refused("Only 'users' and 'clients' entity types may be specified together")
    is_spelled = options["entity_name"] or options["entity_type"] or options["entity_default"]
    if is_spelled and any(options[flag] for flag in (*FLAGS, *DEFAULT_FLAGS)):
        raise Refused("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
    if options["bootstrap_server"] and options["bootstrap_controller"]:
        raise Refused("Only one of --bootstrap-server or --bootstrap-controller can be specified")
    _check_names(types, names)
    if options["describe"]:
        if options["entity_default"] and not HAS_DEFAULTS & set(types):
            raise Refused(f"--entity-default must not be specified with --describe of {','.join(types)}")
        if "broker-loggers" in types and not any(names):
            raise Refused(f"An entity name must be specified with --describe of {','.join(types)}")
    else:
        _check_changes(options, types, names)
    if len(names) > len(types):
        raise Refused("More entity names specified than entity types")
    return [Entity(one, names[index] if index < len(names) else None) for index, one in enumerate(types)]


def _types_and_names(options: Mapping[str, Any], order: Iterable[str]) -> tuple[list[str], list[str]]:
    given = iter(options["entity_name"])
    types = list(options["entity_type"])
    names = ["" if word == "--entity-default" else next(given) for word in order]
    for flag, kind in FLAGS.items():
        if options[flag] is not None:
            types.append(kind)
            names.append(options[flag])
    for flag, kind in DEFAULT_FLAGS.items():
        if options[flag]:
            types.append(kind)
            names.append("")
    return types, names


def _check_names(types: list[str], names: list[str]) -> None:
    for name in filter(None, names):
        if {"brokers", "broker-loggers"} & set(types) and not _is_int(name):
            raise Refused(f"The entity name for {types[0]} must be a valid integer broker id, but it is: {name}")
        if "ips" in types and not _is_address(name):
            raise Refused(f"The entity name for {types[0]} must be a valid IP or resolvable host, but it is: {name}")


def _check_changes(options: Mapping[str, Any], types: list[str], names: list[str]) -> None:
    if HAS_DEFAULTS & set(types):
        if not names:
            raise Refused(
                "An entity-name or default entity must be specified with --alter of users, clients, brokers or ips"
            )
    elif not any(names):
        raise Refused(f"An entity name must be specified with --alter of {','.join(types)}")
    if options["add_config"] is not None and options["add_config_file"] is not None:
        raise Refused("Only one of --add-config or --add-config-file must be specified")
    if options["add_config"] is None and options["add_config_file"] is None and not options["delete_config"]:
        raise Refused(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter"
        )


def _is_int(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d+", text) is not None


def _is_address(text: str) -> bool:
    import socket

    try:
        socket.getaddrinfo(text, None)
    except OSError:
        return False
    return True


def parse_added(options: Mapping[str, Any]) -> dict[str, str]:
    """The settings to set."""
    found = read_settings_file(options["add_config_file"])
    if options["add_config"] is not None:
        pairs = [
            re.split(r"\s*=\s*" + OUTSIDE_BRACKETS, item)
            for item in _java_split(options["add_config"], "," + OUTSIDE_BRACKETS)
        ]
        if any(len(pair) != 2 for pair in pairs):
            raise Refused(
                "requirement failed: Invalid entity config: all configs to be added must be in the format "
                '"key=val" or  "key=[val1,val2]" to group values which contain commas.'
            )
        found |= {name.strip(): re.sub(r"[\[\]]", "", value).strip() for name, value in pairs}
    for name in found:
        if not re.fullmatch(r"[$a-zA-Z0-9._-]*", name):
            raise Refused(f"Invalid character found for config key: {name}")
    return found


def _java_split(text: str, pattern: str) -> list[str]:
    """As `String.split` does: empty ends are left out."""
    parts = re.split(pattern, text)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return parts


def parse_deleted(options: Mapping[str, Any]) -> list[str]:
    return [name.strip() for item in options["delete_config"] for name in item.split(",")]


# Alter


def alter(admin: Admin, entities: list[Entity], options: Mapping[str, Any]) -> None:
    added, deleted = parse_added(options), parse_deleted(options)
    kind, name = entities[0]
    assert name is not None, "checked before"
    if kind in ("users", "clients"):
        _alter_users(admin, entities, added, deleted)
    elif kind == "ips":
        unknown = [one for one in (*added, *deleted) if one not in IP_QUOTAS]
        if unknown:
            raise Refused(
                "Only connection quota configs can be added for 'ips' using --bootstrap-server. Unexpected config "
                f"names: {','.join(unknown)}"
            )
        _alter_quotas(admin, entities, added, deleted)
    else:
        _alter_resource(admin, kind, name, added, deleted)
    if options["output"] == "json":
        print_json({"type": kind, "name": name, "set": added, "deleted": deleted})
    elif name:
        click.echo(f"Completed updating config for {kind[:-1]} {name}.")
    else:
        click.echo(f"Completed updating default config for {kind} in the cluster.")


def _alter_resource(admin: Admin, kind: str, name: str, added: Mapping[str, str], deleted: list[str]) -> None:
    from ottla.client.admin import AlterConfigOp, ConfigResource
    from ottla.errors import UnsupportedVersion

    resource = ConfigResource(_resource_type(kind), name)
    if kind == "broker-loggers":
        known = admin.describe_configs([resource]).all()[resource]
        unknown = [one for one in (*deleted, *added) if one not in known]
        if unknown:
            raise Refused(f"Invalid broker logger(s): {','.join(unknown)}")
    changes = [AlterConfigOp.delete(one) for one in deleted]
    changes += [AlterConfigOp.set(one, value) for one, value in added.items()]
    try:
        admin.incremental_alter_configs({resource: changes}, timeout=30).all()
    except UnsupportedVersion:
        raise Refused(
            "The INCREMENTAL_ALTER_CONFIGS API is not supported by the cluster. The API is supported starting from "
            "version 2.3.0. You may want to use an older version of this tool to interact with your cluster, or "
            "upgrade your brokers to version 2.3.0 or newer to avoid this error."
        ) from None


def _alter_users(admin: Admin, entities: list[Entity], added: Mapping[str, str], deleted: list[str]) -> None:
    is_of_clients = any(entity.type == "clients" for entity in entities)
    allowed = QUOTAS if is_of_clients else QUOTAS | _scram_names()
    what = "quota" if is_of_clients else "quota and SCRAM credential"
    kind = "clients" if is_of_clients else "users"
    for verb, names in (("added", list(added)), ("deleted", deleted)):
        unknown = [name for name in names if name not in allowed]
        if unknown:
            raise Refused(
                f"Only {what} configs can be {verb} for '{kind}' using --bootstrap-server. Unexpected config names: "
                f"{', '.join(unknown)}"
            )
    changed = {*added, *deleted}
    passwords = changed & _scram_names()
    if passwords and any(entity.name == "" for entity in entities):
        raise Refused(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
            "--bootstrap-server."
        )
    if passwords and changed & QUOTAS:
        raise Refused(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server."
        )
    if changed & QUOTAS:
        _alter_quotas(admin, entities, added, deleted)
    else:
        _alter_passwords(admin, entities[0].name or "", added, deleted)


def _scram_names() -> set[str]:
    return {"SCRAM-SHA-256", "SCRAM-SHA-512"}


def _alter_passwords(admin: Admin, user: str, added: Mapping[str, str], deleted: list[str]) -> None:
    from ottla.client.admin import DeleteScramPassword, ScramChange, ScramMechanism, SetScramPassword

    def mechanism(name: str) -> ScramMechanism:
        return ScramMechanism[name.replace("-", "_")]

    changes: list[ScramChange] = [DeleteScramPassword(user, mechanism(name)) for name in deleted]
    for name, value in added.items():
        match = CREDENTIAL.fullmatch(value)
        if match is None:
            raise Refused(f"Invalid credential property {name.replace('-', '_')}={value}")
        iterations = SCRAM_ITERATIONS if match[1] in (None, "-1") else int(match[1] or 0)
        if iterations < SCRAM_ITERATIONS_MIN:
            raise Refused(
                f"Iterations {iterations} is less than the minimum {SCRAM_ITERATIONS_MIN} required for {name}"
            )
        changes.append(SetScramPassword(user, mechanism(name), match[2], iterations))
    admin.alter_user_scram_credentials(changes).all()


def _alter_quotas(admin: Admin, entities: list[Entity], added: Mapping[str, str], deleted: list[str]) -> None:
    from ottla.client.admin import QuotaEntity

    known: dict[str, float] = next(iter(_find_quotas(admin, entities).values()), {})
    unknown = [name for name in deleted if name not in known]
    if unknown:
        raise Refused(f"Invalid config(s): {','.join(unknown)}")
    changes: dict[str, float | None] = {}
    for name, value in added.items():
        try:
            changes[name] = float(value)
        except ValueError:
            raise Refused(f"Cannot parse quota configuration value for {name}: {value}") from None
    changes |= dict.fromkeys(deleted)
    entity = QuotaEntity.of({QUOTA_KINDS[one.type]: one.name or None for one in entities})
    admin.alter_client_quotas({entity: changes}).all()


# Describe


def describe(admin: Admin, entities: list[Entity], options: Mapping[str, Any]) -> None:
    is_json = options["output"] == "json"
    if entities[0].type in QUOTA_KINDS:
        _describe_quotas(admin, entities, is_json=is_json)
        return
    kind, name = entities[0]
    if name and not options["all"] and not _exists(admin, kind, name):
        if is_json:
            print_json([])
        else:
            click.echo(f"The {kind[:-1]} '{name}' doesn't exist and doesn't have dynamic config.")
        return
    shown = []
    for one in [name] if name is not None else _all_names(admin, kind):
        entries = _entries(admin, kind, one, all_of_them=options["all"])
        if is_json:
            shown.append({"type": kind, "name": one, "configs": [_as_json(entry) for entry in entries]})
            continue
        if one:
            click.echo(f"{'All' if options['all'] else 'Dynamic'} configs for {kind[:-1]} {one} are:")
        else:
            click.echo(f"Default configs for {kind} in the cluster are:")
        for entry in entries:
            synonyms = ", ".join(f"{each.source.name}:{each.name}={_text(each.value)}" for each in entry.synonyms)
            sensitive = str(entry.is_sensitive).lower()
            click.echo(f"  {entry.name}={_text(entry.value)} sensitive={sensitive} synonyms={{{synonyms}}}")
    if is_json:
        print_json(shown)


def _text(value: str | None) -> str:
    return "null" if value is None else value


def _as_json(entry: ConfigEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name,
        "sensitive": entry.is_sensitive,
        "readOnly": entry.is_read_only,
        "synonyms": [{"source": one.source.name, "name": one.name, "value": one.value} for one in entry.synonyms],
    }


def _resource_type(kind: str) -> Any:
    from ottla.client.admin import ConfigResourceType

    return {
        "topics": ConfigResourceType.TOPIC,
        "brokers": ConfigResourceType.BROKER,
        "broker-loggers": ConfigResourceType.BROKER_LOGGER,
        "client-metrics": ConfigResourceType.CLIENT_METRICS,
        "groups": ConfigResourceType.GROUP,
    }[kind]


def _exists(admin: Admin, kind: str, name: str) -> bool:
    from ottla.client.admin import ConfigResourceType

    match kind:
        case "topics":
            return name in admin.list_topics(include_internal=True)
        case "brokers" | "broker-loggers":
            return any(str(node.node_id) == name for node in admin.describe_cluster().nodes)
        case "client-metrics":
            return any(one.name == name for one in admin.list_config_resources([ConfigResourceType.CLIENT_METRICS]))
        case _:
            return name in _group_names(admin)


def _group_names(admin: Admin) -> list[str]:
    from ottla.client.admin import ConfigResourceType
    from ottla.errors import ClusterAuthorizationFailed, UnsupportedVersion

    names = [group.group_id for group in admin.list_groups()]
    try:
        names += [one.name for one in admin.list_config_resources([ConfigResourceType.GROUP])]
    except (UnsupportedVersion, ClusterAuthorizationFailed):
        return names  # an older broker knows no groups but those that there are
    return list(dict.fromkeys(names))


def _all_names(admin: Admin, kind: str) -> list[str]:
    from ottla.client.admin import ConfigResourceType

    match kind:
        case "topics":
            return string_order(admin.list_topics(include_internal=True))
        case "brokers" | "broker-loggers":
            return [*(str(node.node_id) for node in admin.describe_cluster().nodes), ""]
        case "client-metrics":
            return [one.name for one in admin.list_config_resources([ConfigResourceType.CLIENT_METRICS])]
        case _:
            return _group_names(admin)


def _entries(admin: Admin, kind: str, name: str, *, all_of_them: bool) -> list[ConfigEntry]:
    from ottla.client.admin import ConfigResource, ConfigSource

    sources = {
        "topics": ConfigSource.DYNAMIC_TOPIC_CONFIG,
        "brokers": ConfigSource.DYNAMIC_BROKER_CONFIG if name else ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
        "client-metrics": ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
        "groups": ConfigSource.DYNAMIC_GROUP_CONFIG,
    }
    wanted = None if all_of_them else sources.get(kind)
    resource = ConfigResource(_resource_type(kind), name)
    found = admin.describe_configs([resource], include_synonyms=True, timeout=30).all()[resource]
    return [entry for _, entry in sorted(found.items()) if wanted is None or entry.source is wanted]


def _find_quotas(admin: Admin, entities: list[Entity]) -> dict[QuotaEntity, Quotas]:
    from ottla.client.admin import ANY_NAME

    wanted = {QUOTA_KINDS[one.type]: ANY_NAME if one.name is None else one.name or None for one in entities}
    found = admin.describe_client_quotas(wanted, strict=True, timeout=30)
    size = 1 << max(0, len(found) - 1).bit_length()
    return {entity: found[entity] for entity in map_order(found, _quota_hash, size)}


def _quota_hash(entity: QuotaEntity) -> int:
    """`ClientQuotaEntity.hashCode`."""
    return (31 + sum(string_hash(kind) ^ string_hash(name or "") for kind, name in entity.entries)) & 0xFFFF_FFFF


def _describe_quotas(admin: Admin, entities: list[Entity], *, is_json: bool) -> None:
    from ottla.cli.dump.java_text import double_text

    shown: list[dict[str, object]] = []
    for entity, quotas in _find_quotas(admin, entities).items():
        names = dict(entity.entries)
        if is_json:
            shown.append({"entity": names, "quotas": quotas})
            continue
        who = ", ".join(
            f"{title} '{names[kind]}'" if names[kind] is not None else f"the default {title}"
            for kind, title in (("user", "user-principal"), ("client-id", "client-id"), ("ip", "ip"))
            if kind in names
        )
        limits = ", ".join(f"{name}={double_text(quotas[name])}" for name in fitted_string_order(quotas))
        click.echo(f"Quota configs for {who} are {limits}")
    if all(entity.type == "users" and entity.name != "" for entity in entities):
        shown += _describe_passwords(admin, [entity.name for entity in entities if entity.name], is_json=is_json)
    if is_json:
        print_json(shown)


def _describe_passwords(admin: Admin, users: list[str], *, is_json: bool) -> list[dict[str, object]]:
    from ottla.errors import ResourceNotFound

    found = admin.describe_user_scram_credentials(users or None, timeout=30)
    shown: list[dict[str, object]] = []
    for user, outcome in found.items():
        error = outcome.error
        if isinstance(error, ResourceNotFound):
            continue  # a user without a password
        if error is not None:
            if is_json:
                shown.append({"entity": {"user": user}, "error": str(error)})
            else:
                name = java_text(error).rpartition(".")[2]
                click.echo(f"Error retrieving SCRAM credential configs for user-principal '{user}': {name}")
            continue
        infos = {one.mechanism.name.replace("_", "-"): one.iterations for one in outcome.result()}
        if is_json:
            shown.append({"entity": {"user": user}, "scram": infos})
        else:
            text = ", ".join(f"{name}=iterations={iterations}" for name, iterations in infos.items())
            click.echo(f"SCRAM credential configs for user-principal '{user}' are {text}")
    return shown
