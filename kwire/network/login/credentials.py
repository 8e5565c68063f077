"""User name and password that the user's own code gives. It runs in a worker thread, and may block there."""

from __future__ import annotations

from kwire.config import CredentialsProvider, Secret
from kwire.errors import SaslAuthenticationError
from kwire.network.login.provider import kind_of, result_of_call

_NAME = "sasl_credentials_provider"


def ask_for_credentials(provider: CredentialsProvider) -> tuple[str, Secret]:
    """The user name and password that the provider returns.

    Raises:
        SaslAuthenticationError: it failed, or what it returned is something else.
    """
    try:
        answer = result_of_call(provider)
    except BaseException as error:  # in this thread there is nobody else to raise; sys.exit() is no end of it
        raise SaslAuthenticationError(f"{_NAME} failed: {type(error).__name__}: {error}") from error
    match answer:
        case (str(username), Secret() as password):
            return username, password
        case (str(username), str(password)):
            return username, Secret(password)
        case _:
            raise SaslAuthenticationError(
                f"{_NAME} returned {kind_of(answer)}; it has to return a tuple of user name and password, both str"
            )
