"""Asks whether a package that kwire is run or tested with has a known vulnerability; `scripts/check` runs it.

    python -m tools.audit

Exit codes: 0 no known vulnerability, or the data cannot be reached (it prints "skipped"); 1 a package has one. The data
is that of pip-audit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from tools.supply_tools import NoToolsError, supply_tool

PATIENCE_S = 5
SKIPPED = "skipped: no data"


def main() -> int:
    try:
        answer = ask("requirements/dev-hashes.txt")
    except NoToolsError as error:
        print(f"{SKIPPED} ({error})")
        return 0
    if answer is None:
        print(SKIPPED)
        return 0
    problems = list(vulnerabilities(answer))
    print("\n".join(problems) or "no known vulnerabilities")
    return 1 if problems else 0


def ask(requirements: str) -> str | None:
    """The report on what a file of hashes names; None if the data cannot be reached. Raises: NoToolsError."""
    command = [supply_tool("pip-audit"), "--requirement", requirements, "--require-hashes", "--disable-pip"]
    command += ["--format", "json", "--progress-spinner", "off", "--timeout", str(PATIENCE_S)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.strip().startswith("{"):
        return None
    packages = json.loads(done.stdout)["dependencies"]
    return None if all("skip_reason" in package for package in packages) else done.stdout  # an index without such data


def vulnerabilities(report: str) -> Iterator[str]:
    """One line each, of a report in JSON."""
    for package in json.loads(report)["dependencies"]:
        for found in package.get("vulns", ()):
            fixed = f", fixed in {', '.join(found['fix_versions'])}" if found.get("fix_versions") else ""
            yield f"{package['name']} {package['version']}: {found['id']}{fixed}"


if __name__ == "__main__":
    sys.exit(main())
