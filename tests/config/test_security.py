"""The settings of TLS and SASL: what fits together, what Java's text for a login says, and that no secret is shown."""

from __future__ import annotations

import copy
import pickle
import ssl
import traceback
from functools import partial

import pytest

from kwire.config import ConsumerConfig, SaslMechanism, Secret, login_of
from kwire.config.jaas import parse_jaas
from kwire.errors import ConfigError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
HUSH = "hush-hush"


def of(**settings: object) -> ConsumerConfig:
    return ConsumerConfig.of({"bootstrap.servers": "localhost:9092", **settings})


SASL: dict[str, object] = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}
LOGIN: dict[str, object] = {"sasl_username": "me", "sasl_password": HUSH}


@pytest.mark.parametrize(
    "text",
    [
        f'{PLAIN} username="me" password="{HUSH}";',
        f"{PLAIN} username=me password={HUSH} ;  ",
        f"{PLAIN}\n    username='me' // who\n    /* what */ password=\"{HUSH}\" serviceName=kafka\n;\n",
        f'PlainLoginModule REQUIRED username="me" password="{HUSH}";',
    ],
)
def test_the_login_of_a_java_properties_file_says_user_and_password(text: str) -> None:
    login = login_of(of(**SASL, sasl_jaas_config=text))

    assert (login.username, login.password) == ("me", Secret(HUSH))


def test_quotes_and_backslashes_in_a_java_login_are_unescaped() -> None:
    assert parse_jaas(PLAIN + r' password="a\"b\\c;=";').options["password"] == 'a"b\\c;='


@pytest.mark.parametrize(
    ("mechanism", "module", "option", "expected"),
    [
        ("SCRAM-SHA-256", "scram.ScramLoginModule", ' tokenauth="true"', True),
        ("SCRAM-SHA-512", "scram.ScramLoginModule", " tokenauth=false", False),
        ("SCRAM-SHA-512", "scram.ScramLoginModule", "", False),
        ("PLAIN", "plain.PlainLoginModule", ' tokenauth="true"', False),
    ],
)
def test_a_delegation_token_is_told_from_a_user(mechanism: str, module: str, option: str, expected: bool) -> None:
    text = f"org.apache.kafka.common.security.{module} required username=id password={HUSH}{option};"
    settings = {**SASL, "sasl_mechanism": mechanism, "sasl_jaas_config": text}
    assert login_of(of(**settings)).is_delegation_token is expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f'{PLAIN} username="me" password="{HUSH}"', "does not end with a semicolon"),
        (f'{PLAIN} username="me" password="{HUSH};', "a quotation mark is not closed"),
        (f'{HUSH} username="me";', "does not begin with the name of a login module"),
        (f"{PLAIN} username {HUSH};", "not of the form name=value"),
        (f"{PLAIN} password={HUSH} password={HUSH};", "the option password is given twice"),
        (f"{PLAIN} password={HUSH}; {PLAIN} password={HUSH};", "not of the form name=value"),
        (";", "does not begin"),
        ("  ", "does not end"),
    ],
)
def test_a_java_login_that_cannot_be_read_is_refused_without_being_shown(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        of(**SASL, sasl_jaas_config=text)

    assert HUSH not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"security_protocol": "SASL_SSL", **LOGIN}, "sasl_mechanism is missing"),
        ({**SASL, "sasl_username": "me"}, "needs sasl_username and sasl_password"),
        ({**SASL, "sasl_mechanism": "SCRAM-SHA-256"}, "needs sasl_username and sasl_password"),
        (
            {**SASL, **LOGIN, "sasl_credentials_provider": lambda: ("me", HUSH)},
            "sasl_credentials_provider is given, and sasl_username, sasl_password as well; give one",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_credentials_provider": lambda: ("me", HUSH)},
            "sasl_mechanism is missing",
        ),
        ({**SASL, "sasl_credentials_provider": HUSH}, "sasl_credentials_provider=<secret>: gives no credentials"),
        ({**SASL, "sasl_oauth_token_provider": HUSH}, "sasl_oauth_token_provider=<secret>: gives no tokens"),
        ({**SASL, "sasl_credentials_provider": dict}, "sasl_credentials_provider=.*a class; give an object of it"),
        (
            {**SASL, "sasl_credentials_provider": partial(lambda *, password, user: (user, password), password=HUSH)},
            "sasl_credentials_provider=<secret>: called without arguments, and cannot be",
        ),
        ({**SASL, "sasl_mechanism": "OAUTHBEARER"}, "needs to know where tokens come from"),
        (
            {**SASL, **LOGIN, "sasl_jaas_config": f"{PLAIN} username=another password={HUSH};"},
            "sasl_username and sasl_jaas_config contradict each other",
        ),
        (
            {**SASL, "sasl_mechanism": "OAUTHBEARER", "sasl_jaas_config": f"{PLAIN} username=me password={HUSH};"},
            "is for PlainLoginModule, but sasl_mechanism is OAUTHBEARER, which takes OAuthBearerLoginModule",
        ),
        (
            {
                "security_protocol": "SASL_SSL",
                "sasl_oauthbearer_token_endpoint_url": f"http://me:{HUSH}@login.example/t",
            },
            "neither https:// nor file://",
        ),
        (
            {
                "security_protocol": "SSL",
                "ssl_truststore_location": "ca.pem",
                "ssl_context": ssl.create_default_context(),
            },
            "ssl_context stands for all of TLS; leave out ssl_truststore_location",
        ),
        ({"security_protocol": "SSL", "ssl_keystore_key": HUSH}, "ssl_keystore_certificate_chain and ssl_keystore_key"),
        ({"security_protocol": "SSL", "ssl_key_password": HUSH}, "ssl_key_password is given, but no key"),
        (
            {
                "security_protocol": "SSL",
                "ssl_truststore_location": "ca.pem",
                "ssl_truststore_certificates": "-----BEGIN CERTIFICATE-----",
            },
            "are both given",
        ),
        ({"bootstrap.servers": "SSL://broker:9093"}, "begins with SSL://, but security_protocol is PLAINTEXT"),
        ({"sasl.password": 5}, "sasl_password=<secret>: not text, but int"),
        ({"ssl.keystore.password": HUSH}, "kwire reads PEM files"),
    ],
)
def test_settings_that_do_not_fit_together_are_refused(settings: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        of(**settings)

    assert HUSH not in str(caught.value)


def test_a_token_provider_is_enough_to_say_oauthbearer() -> None:
    config = of(security_protocol="SASL_SSL", sasl_oauth_token_provider=lambda: "token")

    assert config.sasl_mechanism is SaslMechanism.OAUTHBEARER


@pytest.mark.parametrize(
    ("settings", "warning"),
    [
        (LOGIN, "without effect with security_protocol=PLAINTEXT: sasl_password, sasl_username"),
        ({**SASL, **LOGIN, "security_protocol": "SASL_PLAINTEXT"}, "the password is sent in the clear"),
        (
            {**SASL, **LOGIN, "sasl_kerberos_service_name": "kafka", "sasl_oauthbearer_scope": "read"},
            "without effect with sasl_mechanism=PLAIN: sasl_kerberos_service_name, sasl_oauthbearer_scope",
        ),
        (
            {**SASL, **LOGIN, "sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": lambda: "token"},
            "without effect with sasl_mechanism=OAUTHBEARER: sasl_password, sasl_username",
        ),
    ],
)
def test_what_is_given_in_vain_or_sent_in_the_clear_is_warned_of(
    caplog: pytest.LogCaptureFixture, settings: dict[str, object], warning: str
) -> None:
    of(**settings)

    assert warning in caplog.text
    assert HUSH not in caplog.text


def test_no_form_of_a_config_shows_a_secret() -> None:
    config = of(**SASL, **LOGIN, ssl_keystore_type="PEM")

    assert HUSH not in repr(config) + str(config) + repr(login_of(config)) + f"{config.sasl_password}"
    assert copy.copy(config) == config
    with pytest.raises(TypeError, match="a secret is not pickled"):
        pickle.dumps(config)


def test_no_local_variable_of_kwire_shows_a_secret_when_a_setting_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        ConsumerConfig.of(bootstrap_servers="localhost:9092", sasl_password=HUSH, sasl_mechanism="no such")
    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())

    assert HUSH not in shown.split("config/consumer_config.py", 1)[1]
