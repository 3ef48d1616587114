"""TLS, SASL, tokens and who is who.

Names, types, defaults, bounds and update modes are Kafka's (kafka-facts/config-broker.json, checked by a test).
"""

from __future__ import annotations

from ottla.config.security import LoginSettings
from ottla.config.table import (
    HIGH,
    LOW,
    PER_BROKER,
    Password,
    Setting,
    boolean,
    class_name,
    double,
    integer,
    long,
    password,
    short,
    string,
    string_list,
)


class SecuritySettings(LoginSettings):
    """TLS, SASL, tokens and who is who."""

    authorizer_class_name = Setting(
        "authorizer.class.name", string, "", importance=LOW,
        doc="The authorizer; empty lets everyone do everything.",
    )  # fmt: skip
    connections_max_reauth_ms = Setting(
        "connections.max.reauth.ms", long, 0,
        doc="How long an authenticated connection may go on before it must authenticate again; 0 is forever.",
    )  # fmt: skip
    delegation_token_expiry_check_interval_ms = Setting(
        "delegation.token.expiry.check.interval.ms", long, 3_600_000, min=1, importance=LOW,
        doc="How often expired delegation tokens are looked for.",
    )  # fmt: skip
    delegation_token_expiry_time_ms = Setting(
        "delegation.token.expiry.time.ms", long, 86_400_000, min=1,
        doc="How long a delegation token is valid before it must be renewed.",
    )  # fmt: skip
    delegation_token_max_lifetime_ms = Setting(
        "delegation.token.max.lifetime.ms", long, 604_800_000, min=1,
        doc="How long a delegation token can be kept valid by renewing it.",
    )  # fmt: skip
    delegation_token_secret_key: Setting[Password | None] = Setting(
        "delegation.token.secret.key", password, None,
        doc="The key that delegation tokens are made with; the same on every node.",
    )  # fmt: skip
    principal_builder_class = Setting(
        "principal.builder.class", class_name,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder", update=PER_BROKER,
        doc="The class that turns a connection into a principal. Ottla builds principals as Kafka's own class does.",
    )  # fmt: skip
    sasl_enabled_mechanisms: Setting[tuple[str, ...]] = Setting(
        "sasl.enabled.mechanisms", string_list, ("GSSAPI",), update=PER_BROKER,
        doc="The SASL mechanisms that clients may use.",
    )  # fmt: skip
    sasl_kerberos_kinit_cmd = Setting(
        "sasl.kerberos.kinit.cmd", string, "/usr/bin/kinit", update=PER_BROKER,
        doc="Where `kinit` is.",
    )  # fmt: skip
    sasl_kerberos_min_time_before_relogin = Setting(
        "sasl.kerberos.min.time.before.relogin", long, 60_000, update=PER_BROKER,
        doc="How long the login thread waits between two attempts.",
    )  # fmt: skip
    sasl_kerberos_principal_to_local_rules: Setting[tuple[str, ...]] = Setting(
        "sasl.kerberos.principal.to.local.rules", string_list, ("DEFAULT",), update=PER_BROKER,
        doc="The rules that turn a Kerberos principal into a short name; the first that matches is taken.",
    )  # fmt: skip
    sasl_kerberos_ticket_renew_jitter = Setting(
        "sasl.kerberos.ticket.renew.jitter", double, 0.05, update=PER_BROKER,
        doc="How much of the renewal time of a ticket is random.",
    )  # fmt: skip
    sasl_kerberos_ticket_renew_window_factor = Setting(
        "sasl.kerberos.ticket.renew.window.factor", double, 0.8, update=PER_BROKER,
        doc="The share of a ticket's life after which it is renewed.",
    )  # fmt: skip
    sasl_login_refresh_buffer_seconds = Setting(
        "sasl.login.refresh.buffer.seconds", short, 300, update=PER_BROKER,
        doc="How long before its end a credential is refreshed at the latest.",
    )  # fmt: skip
    sasl_login_refresh_min_period_seconds = Setting(
        "sasl.login.refresh.min.period.seconds", short, 60, update=PER_BROKER,
        doc="How long a credential is used at least before it is refreshed.",
    )  # fmt: skip
    sasl_login_refresh_window_factor = Setting(
        "sasl.login.refresh.window.factor", double, 0.8, update=PER_BROKER,
        doc="The share of a credential's life after which it is refreshed.",
    )  # fmt: skip
    sasl_login_refresh_window_jitter = Setting(
        "sasl.login.refresh.window.jitter", double, 0.05, update=PER_BROKER,
        doc="How much of that time is random.",
    )  # fmt: skip
    sasl_mechanism_controller_protocol = Setting(
        "sasl.mechanism.controller.protocol", string, "GSSAPI", importance=HIGH,
        doc="The SASL mechanism for talking to controllers.",
    )  # fmt: skip
    sasl_mechanism_inter_broker_protocol = Setting(
        "sasl.mechanism.inter.broker.protocol", string, "GSSAPI", update=PER_BROKER,
        doc="The SASL mechanism for talking to other brokers.",
    )  # fmt: skip
    sasl_server_callback_handler_class: Setting[str | None] = Setting(
        "sasl.server.callback.handler.class", class_name, None,
        doc="The class that answers a SASL server's questions.",
    )  # fmt: skip
    sasl_server_max_receive_size = Setting(
        "sasl.server.max.receive.size", integer, 524_288,
        doc="The largest message of a client before it is authenticated.",
    )  # fmt: skip
    ssl_allow_dn_changes = Setting(
        "ssl.allow.dn.changes", boolean, False, importance=LOW,
        doc="Whether a new certificate may have another distinguished name.",
    )  # fmt: skip
    ssl_allow_san_changes = Setting(
        "ssl.allow.san.changes", boolean, False, importance=LOW,
        doc="Whether a new certificate may have other alternative names.",
    )  # fmt: skip
    ssl_cipher_suites: Setting[tuple[str, ...]] = Setting(
        "ssl.cipher.suites", string_list, (), update=PER_BROKER,
        doc="The cipher suites that are offered; empty offers all.",
    )  # fmt: skip
    ssl_client_auth = Setting(
        "ssl.client.auth", string, "none", valid=("required", "requested", "none"), update=PER_BROKER,
        doc="Whether clients must, may or need not show a certificate.",
    )  # fmt: skip
    ssl_key_password: Setting[Password | None] = Setting(
        "ssl.key.password", password, None, update=PER_BROKER,
        doc="The password of the private key.",
    )  # fmt: skip
    ssl_keymanager_algorithm = Setting(
        "ssl.keymanager.algorithm", string, "SunX509", update=PER_BROKER,
        doc="How Java manages keys.",
    )  # fmt: skip
    ssl_keystore_certificate_chain: Setting[Password | None] = Setting(
        "ssl.keystore.certificate.chain", password, None, update=PER_BROKER,
        doc="The certificate chain itself, in PEM's form.",
    )  # fmt: skip
    ssl_keystore_key: Setting[Password | None] = Setting(
        "ssl.keystore.key", password, None, update=PER_BROKER,
        doc="The private key itself, in PEM's form.",
    )  # fmt: skip
    ssl_keystore_location: Setting[str | None] = Setting(
        "ssl.keystore.location", string, None, update=PER_BROKER,
        doc="The file with the private key and its certificates.",
    )  # fmt: skip
    ssl_keystore_password: Setting[Password | None] = Setting(
        "ssl.keystore.password", password, None, update=PER_BROKER,
        doc="The password of that file.",
    )  # fmt: skip
    ssl_principal_mapping_rules = Setting(
        "ssl.principal.mapping.rules", string, "DEFAULT", importance=LOW,
        doc="The rules that turn a certificate's name into a short one; the first that matches is taken.",
    )  # fmt: skip
    ssl_trustmanager_algorithm = Setting(
        "ssl.trustmanager.algorithm", string, "PKIX", update=PER_BROKER,
        doc="How Java manages trust.",
    )  # fmt: skip
    ssl_truststore_certificates: Setting[Password | None] = Setting(
        "ssl.truststore.certificates", password, None, update=PER_BROKER,
        doc="The trusted certificates themselves, in PEM's form.",
    )  # fmt: skip
    ssl_truststore_location: Setting[str | None] = Setting(
        "ssl.truststore.location", string, None, update=PER_BROKER,
        doc="The file with the trusted certificates.",
    )  # fmt: skip
    ssl_truststore_password: Setting[Password | None] = Setting(
        "ssl.truststore.password", password, None, update=PER_BROKER,
        doc="The password of that file.",
    )  # fmt: skip
