"""How what two queries failed of is compared: kwire has to say all that Spark's source says, and may add advice behind
it. For `scripts/prove spark-answers`."""

from __future__ import annotations

import re

from proofs.spark_answers.answers import PYTHON, squeezed, told

END = r"(?=\n\s+at |\n\s*File |\n\s*\n|\s+SQLSTATE: |\Z)"
OF_A_SOURCE = re.compile(rf"(?:org\.apache\.spark\.sql\.kafka010|kwire)[\w.$]*: (.*?){END}", re.DOTALL)
OF_A_STREAM = re.compile(rf"\A\[STREAM_FAILED\] .*? terminated with exception: (.*?){END}", re.DOTALL)
CONDITION = re.compile(r"\A\[[A-Z_.]+\] ")
# Spark's source reads with a consumer group of that name, and kwire with none.
GROUP = re.compile(r"\s+with consumer group spark-kafka-[\w-]+")
# Scala's do not always have the same order.
COLLECTION = re.compile(r"(Set|Map)\(([^)]*)\)")


def is_same_failure(theirs: str, ours: str) -> bool:
    """Whether the second is told in all the words of the first one. No text is no failure.

    Spark does not show the name of each condition that its source's errors have; kwire always does.
    """
    if not (theirs and ours):
        return theirs == ours
    wanted, found = squeezed(said(theirs)), said(ours)
    return bool(wanted) and any(_begins(squeezed(each), wanted) for each in (found, CONDITION.sub("", found)))


def _begins(text: str, words: str) -> bool:
    """With these words, and not in the middle of a number or a name."""
    return text.startswith(words) and not text[len(words) :][:1].isalnum()


def said(failure: str) -> str:
    """The whole message of the source's own error, if there is one; else of what comes closest to it."""
    messages = OF_A_SOURCE.findall(failure)
    if PYTHON not in failure:
        messages = messages or OF_A_STREAM.findall(failure)
    return COLLECTION.sub(_in_order, GROUP.sub("", messages[-1] if messages else told(failure)))


def _in_order(members: re.Match[str]) -> str:
    return f"{members[1]}({', '.join(sorted(members[2].split(', ')))})"
