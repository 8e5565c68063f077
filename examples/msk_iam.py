"""A consumer of Amazon MSK, which lets clients in by IAM: AWS's signer makes the tokens, from the usual credentials.

Needs `pip install aws-msk-iam-sasl-signer-python`, AWS_REGION, and credentials where AWS's tools look for them. The
bootstrap servers are those with port 9098. A token lives 15 minutes; kwire asks for the next one after 10.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from arguments import parse

from kwire import Consumer


def signer(region: str) -> Callable[[], tuple[str, float]]:
    """What kwire asks for tokens, in a thread of its own: it may take the time that signing needs."""
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

    def token() -> tuple[str, float]:
        # For a role: MSKAuthTokenProvider.generate_auth_token_from_role_arn(region, role_arn)
        value, expires_at_ms = MSKAuthTokenProvider.generate_auth_token(region)
        return value, expires_at_ms

    return token


def main(argv: list[str] | None = None) -> None:
    wanted = parse("A consumer of Amazon MSK, which lets clients in by IAM.", argv)
    consumer: Consumer[bytes, bytes] = Consumer(
        wanted.topic,
        bootstrap_servers=wanted.bootstrap_servers,
        group_id=wanted.group_id,
        auto_offset_reset="earliest",
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=signer(os.environ["AWS_REGION"]),
    )
    with consumer:
        while records := consumer.poll(wanted.idle_seconds):
            for record in records:
                print(f"{record.topic_partition}@{record.offset}: {record.key!r} {record.value!r}")


if __name__ == "__main__":
    main()
