"""Assertions that this client signs: who it is, in a JWT that a login server checks (RFC 7523; KIP-1139 and KIP-1258).

Needs joserfc, which `kwire[oauth]` installs. Key and template are read each time, so a new key needs no restart.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Mapping
from pathlib import Path

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry
from joserfc.jwt import encode

from kwire.clock import new_uuid, wall_clock_ms
from kwire.config import AssertionAlgorithm, ConsumerConfig, Secret
from kwire.network.login.failures import TokenRequestError, bare

_MAX_FILE_BYTES = 1024 * 1024
_KEY_FILE = "sasl_oauthbearer_assertion_private_key_file"
_TEMPLATE_FILE = "sasl_oauthbearer_assertion_template_file"
_KEY_TYPES: Mapping[AssertionAlgorithm, type[RSAKey] | type[ECKey]] = {
    AssertionAlgorithm.RS256: RSAKey,
    AssertionAlgorithm.ES256: ECKey,
}
Json = dict[str, object]


class AssertionMaker:
    """Makes an assertion each time it is called. Settings win over the template, and times over both, as in Java."""

    def __init__(self, config: ConsumerConfig) -> None:
        self._config = config

    def __call__(self) -> Secret:
        """Raises: TokenRequestError, if the template or the key cannot be read or used."""
        algorithm = self._config.sasl_oauthbearer_assertion_algorithm.value
        header, claims = _template(self._config.sasl_oauthbearer_assertion_template_file)
        header |= {"alg": algorithm, "typ": "JWT"}
        claims |= self._fixed_claims() | self._times()
        # Headers that no standard has may stand in a template.
        registry = JWSRegistry(algorithms=[algorithm], strict_check_header=False)
        try:
            return Secret(encode(header, claims, self._key(), registry=registry))
        except (JoseError, ValueError, TypeError) as error:
            raise _unusable_key(self._config, error) from bare(error)

    def _fixed_claims(self) -> Json:
        config = self._config
        claims = {
            "aud": config.sasl_oauthbearer_assertion_claim_aud,
            "iss": config.sasl_oauthbearer_assertion_claim_iss,
            "sub": config.sasl_oauthbearer_assertion_claim_sub,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def _times(self) -> Json:
        now_seconds = wall_clock_ms() // 1000
        times: Json = {
            "iat": now_seconds,
            "exp": now_seconds + self._config.sasl_oauthbearer_assertion_claim_exp_seconds,
            "nbf": now_seconds - self._config.sasl_oauthbearer_assertion_claim_nbf_seconds,
        }
        return times | ({"jti": str(new_uuid())} if self._config.sasl_oauthbearer_assertion_claim_jti_include else {})

    def _key(self) -> RSAKey | ECKey:
        assert self._config.sasl_oauthbearer_assertion_private_key_file is not None
        pem = Secret(_pem(_read(self._config.sasl_oauthbearer_assertion_private_key_file, _KEY_FILE)))
        passphrase = self._config.sasl_oauthbearer_assertion_private_key_passphrase
        try:
            key = _KEY_TYPES[self._config.sasl_oauthbearer_assertion_algorithm].import_key(
                pem.reveal(), password=passphrase.reveal() if passphrase is not None else None
            )
        except (JoseError, ValueError, TypeError) as error:  # a wrong passphrase, another kind of key, no PEM at all
            raise _unusable_key(self._config, error) from bare(error)
        if not key.is_private:
            raise TokenRequestError(
                f"{_KEY_FILE} holds a public key; assertions are signed with the private one", is_certain=True
            )
        return key


def _template(path: Path | None) -> tuple[Json, Json]:
    """Header and claims of a JSON file, as Java has it: {"header": {...}, "payload": {...}}."""
    if path is None:
        return {}, {}
    try:
        found = json.loads(_read(path, _TEMPLATE_FILE))
    except (ValueError, RecursionError) as error:
        raise TokenRequestError(f"{_TEMPLATE_FILE} {str(path)!r} is no JSON: {error}", is_certain=True) from None
    header, claims = (found.get(name, {}) if isinstance(found, dict) else None for name in ("header", "payload"))
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise TokenRequestError(
            f'{_TEMPLATE_FILE} {str(path)!r} is not of the form {{"header": {{...}}, "payload": {{...}}}}',
            is_certain=True,
        )
    return header, claims


def _pem(text: str) -> str:
    """Java takes a key without the lines around it, as one block of base64."""
    if "-----BEGIN" in text:
        return text
    try:
        binascii.a2b_base64(text, strict_mode=False)
    except binascii.Error:
        return text
    return f"-----BEGIN PRIVATE KEY-----\n{text.strip()}\n-----END PRIVATE KEY-----\n"


def _read(path: Path, setting: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise TokenRequestError(
            f"{setting}: {str(path)!r} cannot be read: {error.strerror}", is_certain=True
        ) from error
    if len(data) > _MAX_FILE_BYTES:
        raise TokenRequestError(f"{setting}: {str(path)!r} is larger than {_MAX_FILE_BYTES} bytes", is_certain=True)
    return data.decode("utf-8", "replace")


def _unusable_key(config: ConsumerConfig, error: Exception) -> TokenRequestError:
    algorithm = config.sasl_oauthbearer_assertion_algorithm
    kind = "an RSA key" if algorithm is AssertionAlgorithm.RS256 else "a key of the curve P-256"
    return TokenRequestError(
        f"no assertion can be signed with {_KEY_FILE} {str(config.sasl_oauthbearer_assertion_private_key_file)!r}: "
        f"{error}. It has to be {kind} as PEM, for {algorithm.value}; what it is encrypted with is given by "
        "sasl_oauthbearer_assertion_private_key_passphrase",
        is_certain=True,
    )
