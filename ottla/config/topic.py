"""What may be a topic's settings: the check before a topic is created or altered.

Promises: what Kafka refuses is refused with its words, as `InvalidConfig`. Called by the controller.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.config.broker import BrokerConfig
from ottla.config.group import refuse_nulls
from ottla.config.log import LogConfig
from ottla.errors import InvalidConfig


def validate_topic(
    overrides: Mapping[str, str | None],
    *,
    broker: BrokerConfig | None = None,
    existing: Mapping[str, str] | None = None,
) -> None:
    """Refuse with `InvalidConfig` what cannot be the whole of a topic's overrides.

    `broker` has the values of what is not overridden; `existing` are the overrides that the topic has now, which
    matter because a topic may not leave the remote tier without a word about what is there.
    """
    refuse_nulls(overrides, "topic")
    defaults = broker.log_config() if broker else LogConfig()
    config = defaults.with_topic({name: value for name, value in overrides.items() if value is not None})
    if config.remote_storage_enable:
        _check_remote(config, is_system_enabled=broker is not None and broker.remote_log_storage_system_enable)
    elif (existing or {}).get(
        "remote.storage.enable", ""
    ).lower() == "true" and not config.remote_log_delete_on_disable:
        raise InvalidConfig(
            "It is invalid to disable remote storage without deleting remote data. To keep it readable, set "
            "`remote.storage.enable=true,remote.log.copy.disable=true`; to delete it, set "
            "`remote.storage.enable=false,remote.log.delete.on.disable=true`."
        )


def _check_remote(config: LogConfig, *, is_system_enabled: bool) -> None:
    if not is_system_enabled:
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    if config.cleanup_policy not in ((), ("delete",)):
        raise InvalidConfig(
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
        )
    _check_local("retention.bytes", config.retention_bytes, config.local_retention_bytes, config)
    _check_local("retention.ms", config.retention_ms, config.local_retention_ms, config)


def _check_local(name: str, whole: int, local: int, config: LogConfig) -> None:
    """What stays on local disk is a part of what is kept at all; -2 means all of it."""
    if local == -2:
        return
    if whole >= 0 and local == -1:
        raise InvalidConfig(
            f"Invalid value {local} for configuration local.{name}: "
            f"Value must not be -1 as {name} value is set as {whole}."
        )
    if whole >= 0 and local > whole:
        raise InvalidConfig(
            f"Invalid value {local} for configuration local.{name}: "
            f"Value must not be more than {name} property value: {whole}"
        )
    if config.remote_log_copy_disable and local != whole:
        raise InvalidConfig(
            f"When `remote.log.copy.disable` is set to true, the `local.{name}` and `{name}` must be set to the "
            "identical value because there will be no more logs copied to the remote storage."
        )
