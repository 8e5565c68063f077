"""The Python of Spark's processes: forks of a server for streams, a plain one for all others.

Real processes. A PySpark of a few lines stands in for the real one: what Spark runs of it for a stream is here a
program that tells what it is.
"""

from __future__ import annotations

import json
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyspark_kwire.python import OF_STREAMS, SIZE, TAKEN, without_archives

if TYPE_CHECKING:
    from collections.abc import Mapping

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere each process is a plain one"),
]

TREE = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "pyspark_kwire.python"]
TIMEOUT_S = 60
TOLD = """
import json, os, sys
print(json.dumps({"arguments": sys.argv[1:], "main": __name__, "folder": os.getcwd(), "server": os.getppid(),
                  "port": os.environ.get("PYTHON_WORKER_FACTORY_PORT"), "path": os.environ["PYTHONPATH"]}), flush=True)
exec(sys.stdin.read())
"""
# A JVM that runs one stream, tells its server and ends.
SPARK = f"import subprocess, sys; subprocess.run({COMMAND + OF_STREAMS}, stdin=subprocess.DEVNULL, check=True)"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("installed")
    runner = folder.joinpath(*OF_STREAMS[1].split(".")).with_suffix(".py")
    runner.parent.mkdir(parents=True)
    for package in (runner.parent, runner.parent.parent, runner.parent.parent.parent):
        (package / "__init__.py").touch()
    runner.write_text(f'if __name__ == "__main__":{TOLD}'.replace("\n", "\n    "))
    archive = "/opt/spark/python/lib/pyspark.zip"
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(TREE), archive])}


def started(environment: Mapping[str, str], folder: Path | None = None) -> subprocess.Popen[str]:
    """What Spark starts for a stream; it runs what it is sent."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        COMMAND + OF_STREAMS, stdin=pipe, stdout=pipe, stderr=pipe, env=dict(environment), cwd=folder, text=True
    )


def told(process: subprocess.Popen[str]) -> dict[str, object]:
    """What it says of itself."""
    assert process.stdout is not None
    said: dict[str, object] = json.loads(process.stdout.readline())
    return said


def ended(process: subprocess.Popen[str], program: str = "") -> tuple[int, str]:
    """Have it run this; its exit code and what it said on stderr."""
    _, errors = process.communicate(program, timeout=TIMEOUT_S)
    return process.returncode, errors


def test_a_stream_has_a_process_as_if_it_had_been_started(environment: dict[str, str], tmp_path: Path) -> None:
    process = started({**environment, "PYTHON_WORKER_FACTORY_PORT": "4711"}, tmp_path)
    said = told(process)
    assert said["main"] == "__main__"
    assert said["arguments"] == []
    assert said["port"] == "4711"
    assert said["folder"] == str(tmp_path)
    assert "pyspark.zip" not in str(said["path"])
    assert ended(process, "import sys; print('beware', file=sys.stderr); sys.exit(7)") == (7, "beware\n")


def test_streams_are_forks_of_one_server_which_has_imported_what_they_need(environment: dict[str, str]) -> None:
    first = started(environment)
    second = started({**environment, "PYTHON_WORKER_FACTORY_SECRET": "another"})
    assert told(first)["server"] == told(second)["server"] != os.getpid()
    imported = "import sys; assert 'kwire.network.run' in sys.modules"
    assert ended(second, imported) == (0, "")
    assert ended(first, imported) == (0, "")
    other = started({**environment, "LANGUAGE": "another"})
    assert told(other)["server"] != told_server(environment)
    assert ended(other) == (0, "")


def told_server(environment: dict[str, str]) -> object:
    process = started(environment)
    said = told(process)
    assert ended(process) == (0, "")
    return said["server"]


def test_what_a_stream_dies_of_is_seen(environment: dict[str, str]) -> None:
    code, errors = ended(started(environment), "raise LookupError('no such thing')")
    assert code == 1
    assert errors.endswith("LookupError: no such thing\n")
    killed = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert ended(started(environment), killed) == (128 + signal.SIGKILL, "")


def test_who_is_stopped_takes_its_fork_along(environment: dict[str, str]) -> None:
    with started(environment) as process:
        told(process)
        process.terminate()
        assert process.stdout is not None
        assert process.stdout.read() == ""  # only when the fork, which has the other end as well, is gone
    assert process.returncode == -signal.SIGTERM
    assert ended(started(environment)) == (0, "")  # the server goes on


def test_the_server_ends_with_spark(environment: dict[str, str]) -> None:
    spark = subprocess.run([sys.executable, "-c", SPARK], env=environment, stdout=subprocess.PIPE, check=True)
    try:
        server = os.pidfd_open(int(json.loads(spark.stdout)["server"]))
    except ProcessLookupError:
        return
    assert select.select([server], [], [], TIMEOUT_S)[0] == [server]
    os.close(server)


def test_a_server_whose_spark_is_gone_before_it_can_be_watched_ends(environment: dict[str, str]) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    command = [sys.executable, "-m", "pyspark_kwire.server", "0", str(gone.pid)]
    with socket.socket(socket.AF_UNIX) as listener:
        subprocess.run(command, env=environment, stdin=listener.fileno(), check=True, timeout=TIMEOUT_S)


@pytest.mark.parametrize("said", [b"", SIZE.pack(1000), SIZE.pack(1000) + b"cut off"])
def test_a_stream_that_is_ended_while_it_asks_leaves_the_server_as_it_was(
    environment: dict[str, str], tmp_path: Path, said: bytes
) -> None:
    """The server ended, and the processes that stand for its other streams with it. Spark waits for the end of what
    such a process might have written."""
    address = str(tmp_path / "server")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        command = [sys.executable, "-m", "pyspark_kwire.server", "0", str(os.getpid())]
        server = subprocess.Popen(command, env=environment, stdin=listener.fileno())
    reader, writer = os.pipe()
    try:
        with connected(address) as ended_early:
            if said:
                socket.send_fds(ended_early, [said], [writer])
        os.close(writer)
        assert select.select([reader], [], [], TIMEOUT_S)[0] == [reader]
        assert os.read(reader, 1) == b""
        assert is_taken(address, environment)
        assert server.poll() is None
    finally:
        os.close(reader)
        server.kill()
        server.wait()


def connected(address: str) -> socket.socket:
    client = socket.socket(socket.AF_UNIX)
    client.connect(address)
    return client


def is_taken(address: str, environment: dict[str, str]) -> bool:
    """Whether the server forks for a stream that ends at once."""
    request = marshal.dumps((OF_STREAMS, environment, os.getcwd()))
    with connected(address) as client, open(os.devnull, "r+b") as nothing:
        socket.send_fds(client, [SIZE.pack(len(request))], [nothing.fileno()] * 3)
        client.sendall(request)
        return client.recv(len(TAKEN)) == TAKEN


def test_without_a_server_that_starts_a_stream_has_a_plain_process(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "signal.py").write_text("raise SystemExit(3)")  # the server needs it, nobody else here
    process = started({**environment, "PYTHONPATH": f"{tmp_path}:{environment['PYTHONPATH']}"})
    assert told(process)["server"] == os.getpid()
    assert ended(process, "import sys; sys.exit(7)") == (7, "")


def test_all_other_processes_are_plain_ones_without_the_archives(environment: dict[str, str]) -> None:
    program = "import os, sys; print(os.getppid(), sys.argv[1:], os.environ['PYTHONPATH'])"
    said = subprocess.check_output([*COMMAND, "-c", program, "x"], env=environment, text=True)
    path = environment["PYTHONPATH"].rpartition(os.pathsep)[0]
    assert said == f"{os.getpid()} ['x'] {path}\n"


def test_only_sparks_archives_are_left_out() -> None:
    kept = ["/a", "/opt/spark/python", "/opt/spark/python/lib/jobs.zip", "/b/pyjobs.zip", "/b/jobs.jar"]
    library = "/opt/spark/python/lib"
    archives = [
        f"{library}/py4j-0.10.9.9-src.zip",
        f"{library}/pyspark.zip",
        "/opt/spark/jars/spark-core_2.13-4.2.0.jar",
    ]
    given = {"PYTHONPATH": os.pathsep.join([kept[0], *archives, *kept[1:]]), "HOME": "/root"}
    assert without_archives(given) == {"PYTHONPATH": os.pathsep.join(kept), "HOME": "/root"}
    assert without_archives({}) == {"PYTHONPATH": ""}
