"""A Kerberos realm of MIT's programs, on this machine alone: for tests of GSSAPI, with real tickets.

Debian and Ubuntu: `apt-get install krb5-kdc krb5-admin-server krb5-user gcc libkrb5-dev`, then
`pip install 'kwire[gssapi]'`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.testing.kafka.addresses import free_ports

if TYPE_CHECKING:
    from types import TracebackType

REALM = "KWIRE.TEST"
SYSTEM_PROGRAMS = "/usr/sbin"
START_TIMEOUT_S = 10.0

KRB5_CONF = """\
[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
[domain_realm]
 localhost = {realm}
"""
KDC_CONF = """\
[kdcdefaults]
 kdc_ports = ""
 kdc_tcp_ports = ""
[realms]
 {realm} = {{
  database_name = {directory}/principal
  key_stash_file = {directory}/stash
  acl_file = {directory}/acl
  kdc_listen = ""
  kdc_tcp_listen = 127.0.0.1:{port}
 }}
"""


def missing() -> str | None:
    """What has to be installed for tests with a realm; None if nothing."""
    absent = [name for name in ("krb5kdc", "kdb5_util", "kadmin.local", "kinit") if not _program(name)]
    if absent:
        return f"{', '.join(absent)}: apt-get install krb5-kdc krb5-admin-server krb5-user"
    if importlib.util.find_spec("gssapi") is None:
        return "the package gssapi: apt-get install gcc libkrb5-dev; pip install 'kwire[gssapi]'"
    return None


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=SYSTEM_PROGRAMS)


class KerberosRealm:
    """A key distribution center with a database of its own; a context manager.

    Attributes:
        environment: What programs have to be started with, and this process has to have set, to use it.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (self._port,) = free_ports(1)  # not one of those that outgoing connections take while the center is down
        self.krb5_conf = directory / "krb5.conf"
        self._log = directory / "krb5kdc.log"
        self.environment = {
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{directory}/tickets",
            "KRB5_CLIENT_KTNAME": f"{directory}/no-keytab",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> KerberosRealm:
        names = {"realm": REALM, "directory": self.directory, "port": self._port}
        self.krb5_conf.write_text(KRB5_CONF.format(**names))
        (self.directory / "kdc.conf").write_text(KDC_CONF.format(**names))
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        command = [_program("krb5kdc") or "krb5kdc", "-n", "-r", REALM]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env={**os.environ, **self.environment}, stdout=log, stderr=subprocess.STDOUT
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
            except OSError:
                assert time.monotonic() < deadline, f"krb5kdc does not listen: {self._log.read_text()}"
                assert self._process.poll() is None, f"krb5kdc has ended: {self._log.read_text()}"
                time.sleep(0.01)
            else:
                return

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def principal(self, name: str, *options: str) -> Path:
        """Register one; answers its keytab."""
        keytab = self.directory / f"{name.replace('/', '-')}.keytab"
        self._run("kadmin.local", "-r", REALM, "addprinc", "-randkey", *options, name)
        self._run("kadmin.local", "-r", REALM, "ktadd", "-k", str(keytab), name)
        return keytab

    def kinit(self, name: str, keytab: Path, *options: str) -> None:
        """Get a ticket into the cache that `environment` names."""
        self._run("kinit", "-k", "-t", str(keytab), *options, name)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [_program(program) or program, *arguments],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"
