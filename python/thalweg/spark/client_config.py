"""`ClientConfig`: the options of a query for its clients. Its repr hides secrets.

Spark shows the options of a query in its event log, its UI and its logs. It hides an option if its
name or its value matches `spark.redaction.regex`, whose default does not match all secrets.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Final

from thalweg._config.concealment import concealed
from thalweg._config.secret import Secret
from thalweg.config import Client, InsecureConnectionWarning, option_name, unknown_option

# The default of spark.redaction.regex in Spark 4.
_SPARK_HIDES: Final = r"(?i)secret|password|token|access[.]?key|credential"


class ClientConfig(dict[str, Any]):
    """A client's options under Kafka's dotted names. It can be pickled.

    Its repr also hides the values of unknown names, such as those with the prefix ``kafka.``.
    """

    def __repr__(self) -> str:
        return repr(concealed(self))

    def without(self, client: Client, others: Iterable[str]) -> ClientConfig:
        """Returns the options of a client, except those that `others` name, under any name."""
        names = {option_name(client, name) for name in others}
        return ClientConfig(
            {name: self[name] for name in self if option_name(client, name) not in names}
        )

    def of_admin(self) -> ClientConfig:
        """Returns those options that an admin client also has."""
        kept = {name: self[name] for name in self if unknown_option("a", name) is None}
        return ClientConfig(kept)


def warn_of_visible_secrets(given: Mapping[str, str]) -> None:
    """Warns if Spark shows the value of a secret option.

    Args:
        given: All options of a query, with the prefix ``kafka.`` where they are the client's.
    """
    client = {name: name.removeprefix("kafka.") for name in given if name.startswith("kafka.")}
    shown = concealed({client[name]: given[name] for name in client})
    visible = [
        name
        for name, own in client.items()
        if isinstance(shown[own], Secret)
        and re.search(r"\$\{\w+:", given[name]) is None
        and not any(re.search(_SPARK_HIDES, each) for each in (name, given[name]))
    ]
    if visible:
        warnings.warn(
            f"Spark shows the values of {', '.join(visible)} in its event log and in its UI, unless"
            " spark.redaction.regex matches these names. Use a file or a config provider instead"
            " (see 'Secrets' in thalweg's docs/spark.md)",
            InsecureConnectionWarning,
            stacklevel=2,
        )
