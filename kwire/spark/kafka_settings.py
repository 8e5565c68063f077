"""The settings of Kafka as executors get them, with the secrets among them.

Spark pickles what a task needs in the driver, and unpickles it in the executors' Python: that is how secrets travel, as
Spark's own source has them travel in its parameters. Nothing of it is written out: not by `repr`, and so not by a
traceback or a log; Spark keeps the bytes in memory, and shows them nowhere. On the network they are as safe as Spark's
own (`spark.network.crypto.enabled`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kwire.config import SETTINGS, Secret


class KafkaSettings(Mapping[str, object]):
    """Settings of kwire's consumer by name, each a value as the user gave it, or a `Secret`.

    Pickling reveals the secrets, which `Secret` itself refuses: this is the one place of kwire that does so.
    """

    def __init__(self, settings: Mapping[str, object]) -> None:
        self._settings = {name: _hidden(name, value) for name, value in settings.items()}

    def __getitem__(self, name: str) -> object:
        return self._settings[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def __repr__(self) -> str:
        return repr(self._settings)

    def __reduce__(self) -> tuple[type[KafkaSettings], tuple[dict[str, object]]]:
        revealed = {
            name: value.reveal() if isinstance(value, Secret) else value for name, value in self._settings.items()
        }
        return KafkaSettings, (revealed,)


def _hidden(name: str, value: object) -> object:
    is_secret = name in SETTINGS and SETTINGS[name].is_secret
    return Secret(value) if is_secret and isinstance(value, str) and value else value
