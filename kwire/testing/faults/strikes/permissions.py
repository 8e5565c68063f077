"""What befalls permissions: `kinds/permissions.py` carried out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kwire.testing.faults.arena import GROUP_ID, Arena
from kwire.testing.faults.schedule import Step
from kwire.testing.faults.strikes.strike import Begin, Heal, Strike, stay_so
from kwire.testing.faults.targets import topic_of


def forbid_topic(arena: Arena, step: Step, begin: Begin) -> Heal:
    topic = str(topic_of(step.target))
    begin("")
    arena.admin.permissions.forbid_topic(topic)
    stay_so(arena, step)
    return partial(arena.admin.permissions.allow_topic, topic)


def forbid_group(arena: Arena, step: Step, begin: Begin) -> Heal:
    begin("")
    arena.admin.permissions.forbid_group(GROUP_ID)
    stay_so(arena, step)
    return partial(arena.admin.permissions.allow_group, GROUP_ID)


STRIKES: Mapping[str, Strike] = {"topic-forbidden": forbid_topic, "group-forbidden": forbid_group}
