"""What is sent to a login server: OAuth's grants as forms, as the Java client sends them."""

from __future__ import annotations

import base64
from urllib.parse import quote_plus, urlencode

from kwire.config import ConsumerConfig, Login, Secret
from kwire.network.login.login_server import TokenRequest

_HEADERS = {
    "Accept": Secret("application/json"),
    "Cache-Control": Secret("no-cache"),
    "Connection": Secret("close"),
    "Content-Type": Secret("application/x-www-form-urlencoded"),
}
_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def client_secret_request(config: ConsumerConfig, login: Login) -> TokenRequest:
    """The grant client_credentials, with id and secret in a header (RFC 6749, 4.4 and 2.3.1)."""
    assert login.client_id is not None
    assert login.client_secret is not None
    id_and_secret = Secret(
        ":".join(
            java_urlencode(text) if config.sasl_oauthbearer_header_urlencode else text
            for text in (login.client_id.strip(), login.client_secret.reveal().strip())
        )
    )
    in_header = Secret(base64.b64encode(id_and_secret.reveal().encode()).decode())
    return TokenRequest(
        headers={**_HEADERS, "Authorization": Secret(f"Basic {in_header.reveal()}")},
        body=_form({"grant_type": "client_credentials"}, login),
        secrets=(id_and_secret, in_header, login.client_secret, Secret(java_urlencode(login.client_secret.reveal()))),
    )


def client_assertion_request(login: Login, assertion: Secret) -> TokenRequest:
    """The grant client_credentials, with a signed assertion instead of a secret (KIP-1258; RFC 7523, 2.2)."""
    fields = {"grant_type": "client_credentials", "client_assertion_type": _ASSERTION_TYPE}
    if login.client_id is not None and login.client_id.strip():
        fields["client_id"] = login.client_id.strip()
    return TokenRequest(
        headers=_HEADERS, body=_form(fields, login, ("client_assertion", assertion)), secrets=(assertion,)
    )


def jwt_bearer_request(login: Login, assertion: Secret) -> TokenRequest:
    """The grant jwt-bearer (KIP-1139; RFC 7523, 2.1)."""
    return TokenRequest(
        headers=_HEADERS,
        body=_form({"grant_type": _JWT_BEARER}, login, ("assertion", assertion)),
        secrets=(assertion,),
    )


def java_urlencode(text: str) -> str:
    """As Java's URLEncoder does it, which servers have seen."""
    return quote_plus(text, safe="*").replace("~", "%7E")


def _form(fields: dict[str, str], login: Login, secret: tuple[str, Secret] | None = None) -> Secret:
    if login.scope is not None and login.scope.strip():
        fields = {**fields, "scope": login.scope.strip()}
    more = f"&{secret[0]}={quote_plus(secret[1].reveal())}" if secret is not None else ""
    return Secret(urlencode(fields) + more)
