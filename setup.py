"""What pyproject.toml cannot say: the module in C, which is left out where it cannot be compiled."""

from __future__ import annotations

import os
import sysconfig

from setuptools import Extension, setup

# One binary for Python 3.11 and all later ones; interpreters without their lock have no such thing.
IS_STABLE = not sysconfig.get_config_var("Py_GIL_DISABLED")

SPEEDUPS = Extension(
    "kwire._speedups",
    ["kwire/_speedups.c"],
    define_macros=[("Py_LIMITED_API", "0x030B0000")] if IS_STABLE else [],
    py_limited_api=IS_STABLE,
    # No debugging information: it would have the folder in it, and no two builds would be the same.
    extra_compile_args=["-O2", "-g0"],
    optional=True,
)

setup(
    ext_modules=[] if os.environ.get("KWIRE_WITHOUT_SPEEDUPS") else [SPEEDUPS],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if IS_STABLE else {},
)
