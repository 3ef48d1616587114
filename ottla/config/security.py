"""TLS and SASL as brokers and clients have them alike: the settings that mean the same on both sides.

What differs, if only in how important it is, stands in `config.broker.security` and in the clients' own table.
"""

from __future__ import annotations

from ottla.config.table import (
    HIGH,
    LOW,
    PER_BROKER,
    ConfigTable,
    Password,
    Setting,
    boolean,
    class_name,
    integer,
    long,
    password,
    string,
    string_list,
)


class LoginSettings(ConfigTable):
    """How one side of a connection proves who it is, and finds out who the other one is."""

    sasl_client_callback_handler_class: Setting[str | None] = Setting(
        "sasl.client.callback.handler.class", class_name, None,
        doc="The class that answers the questions of SASL, on the side that logs in.",
    )  # fmt: skip
    sasl_jaas_config: Setting[Password | None] = Setting(
        "sasl.jaas.config", password, None, update=PER_BROKER,
        doc="The login modules, in JAAS's form.",
    )  # fmt: skip
    sasl_kerberos_service_name: Setting[str | None] = Setting(
        "sasl.kerberos.service.name", string, None, update=PER_BROKER,
        doc="The Kerberos principal that the brokers run as.",
    )  # fmt: skip
    sasl_login_callback_handler_class: Setting[str | None] = Setting(
        "sasl.login.callback.handler.class", class_name, None,
        doc="The class that answers a login module's questions.",
    )  # fmt: skip
    sasl_login_class: Setting[str | None] = Setting(
        "sasl.login.class", class_name, None,
        doc="The class that logs in.",
    )  # fmt: skip
    sasl_login_connect_timeout_ms: Setting[int | None] = Setting(
        "sasl.login.connect.timeout.ms", integer, None, importance=LOW,
        doc="How long connecting to the identity provider may take.",
    )  # fmt: skip
    sasl_login_read_timeout_ms: Setting[int | None] = Setting(
        "sasl.login.read.timeout.ms", integer, None, importance=LOW,
        doc="How long reading from the identity provider may take.",
    )  # fmt: skip
    sasl_login_retry_backoff_max_ms = Setting(
        "sasl.login.retry.backoff.max.ms", long, 10_000, importance=LOW,
        doc="The longest wait before the identity provider is asked again.",
    )  # fmt: skip
    sasl_login_retry_backoff_ms = Setting(
        "sasl.login.retry.backoff.ms", long, 100, importance=LOW,
        doc="The first wait before the identity provider is asked again.",
    )  # fmt: skip
    sasl_oauthbearer_assertion_algorithm = Setting(
        "sasl.oauthbearer.assertion.algorithm", string, "RS256", ignore_case=True, valid=("ES256", "RS256"),
        doc="How the assertion is signed.",
    )  # fmt: skip
    sasl_oauthbearer_assertion_claim_aud: Setting[str | None] = Setting(
        "sasl.oauthbearer.assertion.claim.aud", string, None,
        doc="The `aud` claim of the assertion.",
    )  # fmt: skip
    sasl_oauthbearer_assertion_claim_exp_seconds = Setting(
        "sasl.oauthbearer.assertion.claim.exp.seconds", integer, 300, min=0, max=86_400, importance=LOW,
        doc="How long the assertion is valid.",
    )  # fmt: skip
    sasl_oauthbearer_assertion_claim_iss: Setting[str | None] = Setting(
        "sasl.oauthbearer.assertion.claim.iss", string, None,
        doc="The `iss` claim of the assertion.",
    )  # fmt: skip
    sasl_oauthbearer_assertion_claim_jti_include = Setting(
        "sasl.oauthbearer.assertion.claim.jti.include", boolean, False,
        doc="Whether the assertion has a `jti` claim.",
    )  # fmt: skip
    sasl_oauthbearer_assertion_claim_nbf_seconds = Setting(
        "sasl.oauthbearer.assertion.claim.nbf.seconds", integer, 60, min=0, max=3600, importance=LOW,
        doc="How far before now the assertion's validity begins.",
    )  # fmt: skip
    sasl_oauthbearer_assertion_claim_sub: Setting[str | None] = Setting(
        "sasl.oauthbearer.assertion.claim.sub", string, None,
        doc="The `sub` claim of the assertion.",
    )  # fmt: skip
    sasl_oauthbearer_assertion_file: Setting[str | None] = Setting(
        "sasl.oauthbearer.assertion.file", string, None,
        doc="A file with an assertion that was made before.",
    )  # fmt: skip
    sasl_oauthbearer_assertion_private_key_file: Setting[str | None] = Setting(
        "sasl.oauthbearer.assertion.private.key.file", string, None,
        doc="The key that signs the assertion.",
    )  # fmt: skip
    sasl_oauthbearer_assertion_private_key_passphrase: Setting[Password | None] = Setting(
        "sasl.oauthbearer.assertion.private.key.passphrase", password, None,
        doc="The passphrase of that key.",
    )  # fmt: skip
    sasl_oauthbearer_assertion_template_file: Setting[str | None] = Setting(
        "sasl.oauthbearer.assertion.template.file", string, None,
        doc="A file with the fixed headers and claims of the assertion.",
    )  # fmt: skip
    sasl_oauthbearer_client_credentials_client_id: Setting[str | None] = Setting(
        "sasl.oauthbearer.client.credentials.client.id", string, None,
        doc="The client id for the client-credentials grant.",
    )  # fmt: skip
    sasl_oauthbearer_client_credentials_client_secret: Setting[Password | None] = Setting(
        "sasl.oauthbearer.client.credentials.client.secret", password, None,
        doc="The secret for the client-credentials grant.",
    )  # fmt: skip
    sasl_oauthbearer_clock_skew_seconds = Setting(
        "sasl.oauthbearer.clock.skew.seconds", integer, 30, importance=LOW,
        doc="How far the clocks of this side and of the identity provider may differ.",
    )  # fmt: skip
    sasl_oauthbearer_expected_audience: Setting[tuple[str, ...]] = Setting(
        "sasl.oauthbearer.expected.audience", string_list, (), importance=HIGH,
        doc="The audiences that a token must name one of.",
    )  # fmt: skip
    sasl_oauthbearer_expected_issuer: Setting[str | None] = Setting(
        "sasl.oauthbearer.expected.issuer", string, None, importance=HIGH,
        doc="The issuer that a token must name.",
    )  # fmt: skip
    sasl_oauthbearer_jwks_endpoint_refresh_ms = Setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms", long, 3_600_000, importance=LOW,
        doc="How often the identity provider's keys are fetched anew.",
    )  # fmt: skip
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", long, 10_000, importance=LOW,
        doc="The longest wait before those keys are asked for again.",
    )  # fmt: skip
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", long, 100, importance=LOW,
        doc="The first wait before those keys are asked for again.",
    )  # fmt: skip
    sasl_oauthbearer_jwks_endpoint_url: Setting[str | None] = Setting(
        "sasl.oauthbearer.jwks.endpoint.url", string, None,
        doc="Where the identity provider's keys are.",
    )  # fmt: skip
    sasl_oauthbearer_jwt_retriever_class = Setting(
        "sasl.oauthbearer.jwt.retriever.class", class_name,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        doc="The class that fetches tokens.",
    )  # fmt: skip
    sasl_oauthbearer_jwt_validator_class = Setting(
        "sasl.oauthbearer.jwt.validator.class", class_name,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        doc="The class that checks tokens.",
    )  # fmt: skip
    sasl_oauthbearer_scope: Setting[str | None] = Setting(
        "sasl.oauthbearer.scope", string, None,
        doc="The scope that is asked for.",
    )  # fmt: skip
    sasl_oauthbearer_scope_claim_name = Setting(
        "sasl.oauthbearer.scope.claim.name", string, "scope", importance=LOW,
        doc="The name of the claim that holds the scope.",
    )  # fmt: skip
    sasl_oauthbearer_sub_claim_name = Setting(
        "sasl.oauthbearer.sub.claim.name", string, "sub", importance=LOW,
        doc="The name of the claim that holds the subject.",
    )  # fmt: skip
    sasl_oauthbearer_token_endpoint_url: Setting[str | None] = Setting(
        "sasl.oauthbearer.token.endpoint.url", string, None,
        doc="Where tokens are fetched.",
    )  # fmt: skip
    security_providers: Setting[str | None] = Setting(
        "security.providers", string, None, importance=LOW,
        doc="Java security providers. Ottla loads no Java classes.",
    )  # fmt: skip
    ssl_enabled_protocols: Setting[tuple[str, ...]] = Setting(
        "ssl.enabled.protocols", string_list, ("TLSv1.2", "TLSv1.3"), update=PER_BROKER,
        doc="The TLS versions that are offered.",
    )  # fmt: skip
    ssl_endpoint_identification_algorithm = Setting(
        "ssl.endpoint.identification.algorithm", string, "https", importance=LOW, update=PER_BROKER,
        doc="How a server's name is checked against its certificate; empty does not check it.",
    )  # fmt: skip
    ssl_engine_factory_class: Setting[str | None] = Setting(
        "ssl.engine.factory.class", class_name, None, importance=LOW, update=PER_BROKER,
        doc="The class that makes TLS engines. Ottla loads no Java classes.",
    )  # fmt: skip
    ssl_keystore_type = Setting(
        "ssl.keystore.type", string, "JKS", update=PER_BROKER,
        doc="The format of that file.",
    )  # fmt: skip
    ssl_protocol = Setting(
        "ssl.protocol", string, "TLSv1.3", update=PER_BROKER,
        doc="The TLS version that contexts are made for.",
    )  # fmt: skip
    ssl_provider: Setting[str | None] = Setting(
        "ssl.provider", string, None, update=PER_BROKER,
        doc="The Java provider of TLS.",
    )  # fmt: skip
    ssl_secure_random_implementation: Setting[str | None] = Setting(
        "ssl.secure.random.implementation", string, None, importance=LOW, update=PER_BROKER,
        doc="The Java source of randomness for TLS.",
    )  # fmt: skip
    ssl_truststore_type = Setting(
        "ssl.truststore.type", string, "JKS", update=PER_BROKER,
        doc="The format of that file.",
    )  # fmt: skip
