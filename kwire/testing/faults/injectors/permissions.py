"""What befalls permissions: `kinds/permissions.py` carried out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kwire.testing.faults.injectors.injector import Begin, Heal, Injector, stay_so
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.targets import topic_of
from kwire.testing.faults.testbed import GROUP_ID, Testbed


def forbid_topic(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    topic = str(topic_of(step.target))
    begin("")
    testbed.admin.permissions.forbid_topic(topic)
    stay_so(testbed, step)
    return partial(testbed.admin.permissions.allow_topic, topic)


def forbid_group(testbed: Testbed, step: Step, begin: Begin) -> Heal:
    begin("")
    testbed.admin.permissions.forbid_group(GROUP_ID)
    stay_so(testbed, step)
    return partial(testbed.admin.permissions.allow_group, GROUP_ID)


INJECTORS: Mapping[str, Injector] = {"topic-forbidden": forbid_topic, "group-forbidden": forbid_group}
