"""TLS and SASL as a client has them: in the table with Kafka's names, types, defaults and bounds, not served yet.

Promises: a protocol other than `PLAINTEXT` is refused in one line, so nobody believes a connection is protected that
is not. The other settings here have no effect under `PLAINTEXT`, as in Kafka.
"""

from __future__ import annotations

from ottla.config.security import LoginSettings
from ottla.config.table import (
    HIGH,
    LOW,
    Password,
    Setting,
    boolean,
    double,
    long,
    password,
    short,
    string,
    string_list,
)
from ottla.errors import InvalidConfig


def _served(name: str, value: str) -> None:
    if value.upper() != "PLAINTEXT":
        raise InvalidConfig(f"{name}={value} is not served yet: TLS and SASL arrive with security; PLAINTEXT works")


class SecurityConfig(LoginSettings):
    """TLS, SASL and who this client is."""

    sasl_kerberos_kinit_cmd = Setting(
        "sasl.kerberos.kinit.cmd", string, "/usr/bin/kinit", importance=LOW,
        doc="Where `kinit` is.",
    )  # fmt: skip
    sasl_kerberos_min_time_before_relogin = Setting(
        "sasl.kerberos.min.time.before.relogin", long, 60_000, importance=LOW,
        doc="How long the login thread waits between two attempts.",
    )  # fmt: skip
    sasl_kerberos_ticket_renew_jitter = Setting(
        "sasl.kerberos.ticket.renew.jitter", double, 0.05, importance=LOW,
        doc="How much of the renewal time of a ticket is random.",
    )  # fmt: skip
    sasl_kerberos_ticket_renew_window_factor = Setting(
        "sasl.kerberos.ticket.renew.window.factor", double, 0.8, importance=LOW,
        doc="The share of a ticket's life after which it is renewed.",
    )  # fmt: skip
    sasl_login_refresh_buffer_seconds = Setting(
        "sasl.login.refresh.buffer.seconds", short, 300, min=0, max=3600, importance=LOW,
        doc="How long before its end a credential is refreshed at the latest.",
    )  # fmt: skip
    sasl_login_refresh_min_period_seconds = Setting(
        "sasl.login.refresh.min.period.seconds", short, 60, min=0, max=900, importance=LOW,
        doc="How long a credential is used at least before it is refreshed.",
    )  # fmt: skip
    sasl_login_refresh_window_factor = Setting(
        "sasl.login.refresh.window.factor", double, 0.8, min=0.5, max=1.0, importance=LOW,
        doc="The share of a credential's life after which it is refreshed.",
    )  # fmt: skip
    sasl_login_refresh_window_jitter = Setting(
        "sasl.login.refresh.window.jitter", double, 0.05, min=0.0, max=0.25, importance=LOW,
        doc="How much of that time is random.",
    )  # fmt: skip
    sasl_mechanism = Setting(
        "sasl.mechanism", string, "GSSAPI",
        doc="The SASL mechanism that this client logs in with.",
    )  # fmt: skip
    sasl_oauthbearer_header_urlencode = Setting(
        "sasl.oauthbearer.header.urlencode", boolean, False, importance=LOW,
        doc="Whether the client's id and secret are URL-encoded in the authorization header.",
    )  # fmt: skip
    security_protocol = Setting(
        "security.protocol", string,
        "PLAINTEXT", valid=("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT"), ignore_case=True, check=_served,
        doc="How the client talks to brokers. Only `PLAINTEXT` is served yet.",
    )  # fmt: skip
    ssl_cipher_suites: Setting[tuple[str, ...]] = Setting(
        "ssl.cipher.suites", string_list, (), importance=LOW,
        doc="The cipher suites that are offered; empty offers all.",
    )  # fmt: skip
    ssl_key_password: Setting[Password | None] = Setting(
        "ssl.key.password", password, None, importance=HIGH,
        doc="The password of the private key.",
    )  # fmt: skip
    ssl_keymanager_algorithm = Setting(
        "ssl.keymanager.algorithm", string, "SunX509", importance=LOW,
        doc="How Java manages keys.",
    )  # fmt: skip
    ssl_keystore_certificate_chain: Setting[Password | None] = Setting(
        "ssl.keystore.certificate.chain", password, None, importance=HIGH,
        doc="The certificate chain itself, in PEM's form.",
    )  # fmt: skip
    ssl_keystore_key: Setting[Password | None] = Setting(
        "ssl.keystore.key", password, None, importance=HIGH,
        doc="The private key itself, in PEM's form.",
    )  # fmt: skip
    ssl_keystore_location: Setting[str | None] = Setting(
        "ssl.keystore.location", string, None, importance=HIGH,
        doc="The file with the private key and its certificates.",
    )  # fmt: skip
    ssl_keystore_password: Setting[Password | None] = Setting(
        "ssl.keystore.password", password, None, importance=HIGH,
        doc="The password of that file.",
    )  # fmt: skip
    ssl_trustmanager_algorithm = Setting(
        "ssl.trustmanager.algorithm", string, "PKIX", importance=LOW,
        doc="How Java manages trust.",
    )  # fmt: skip
    ssl_truststore_certificates: Setting[Password | None] = Setting(
        "ssl.truststore.certificates", password, None, importance=HIGH,
        doc="The trusted certificates themselves, in PEM's form.",
    )  # fmt: skip
    ssl_truststore_location: Setting[str | None] = Setting(
        "ssl.truststore.location", string, None, importance=HIGH,
        doc="The file with the trusted certificates.",
    )  # fmt: skip
    ssl_truststore_password: Setting[Password | None] = Setting(
        "ssl.truststore.password", password, None, importance=HIGH,
        doc="The password of that file.",
    )  # fmt: skip
