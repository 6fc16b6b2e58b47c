"""Packages code as zip files that are named by their content, so that deploying the same code twice uploads nothing."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import noetl_core
from noetl_core.adapters.local.home import home
from noetl_core.adapters.local.packages import WHY_CHARS, LocalPackages, Platform, installer
from noetl_core.dsl.parse import parse_playbook
from noetl_core.dsl.sections.requirements import digest, requirements_of
from noetl_core.playbooks.called_files import is_playbook
from noetl_core.ports import MissingPackages
from noetl_core.tools.python.packages import FOLDER

REPOSITORY = Path(__file__).resolve().parents[2]
INSTALLED = Path(__file__).resolve().parent / "project"
"""The files of the repository that a wheel includes, laid out as there."""
ROOT = INSTALLED if INSTALLED.is_dir() else REPOSITORY
"""The folder of template.yaml, `functions/` and the layer's lists."""
LAYER = ROOT / "layers" / "noetl_core"
REQUIREMENTS = "requirements.txt"
PINNED = (LAYER / REQUIREMENTS, ROOT / "functions" / "worker" / REQUIREMENTS)
"""The packages that workers have: those of the core layer, and their own."""
CORE = Path(noetl_core.__file__).resolve().parent
ENGINE = "noetl-serverless"
"""The distribution of the core layer, which no other layer includes."""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time stamp of every packed file: the same code gives the same bytes."""


@dataclass(frozen=True, slots=True)
class Package:
    """A zip file and the key it is uploaded under."""

    key: str
    body: bytes


def pack(name: str, files: dict[str, Path]) -> Package:
    """Zip `files` (archive name -> file)."""
    contents = {arc: path.read_bytes() for arc, path in sorted(files.items())}
    mark = sha256()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for arc, content in contents.items():
            mark.update(b"%s %d %b" % (arc.encode(), len(content), content))
            info = zipfile.ZipInfo(arc, EPOCH)
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return Package(f"{name}-{mark.hexdigest()[:16]}.zip", buffer.getvalue())


def function(folder: str, *, dependencies: bool = False, platform: Platform | None = None) -> Package:
    """Return the package of a function's folder, e.g. `functions/admit/`. With `dependencies`, it includes those that are this
    function's own, as for `layer`. Raises `MissingPackages`."""
    handler = {file.name: file for file in (ROOT / folder).glob("*.py")}
    if not dependencies or not (ROOT / folder / REQUIREMENTS).exists():
        return pack(Path(folder).name, handler)
    with TemporaryDirectory(prefix="noetl-function-") as built:
        shutil.copytree(_installed(ROOT / folder / REQUIREMENTS, Path(folder).name, platform), built, dirs_exist_ok=True)
        finish(Path(built), platform)
        return pack(Path(folder).name, {str(p.relative_to(built)): p for p in Path(built).rglob("*") if p.is_file()} | handler)


def layer(*, dependencies: bool, platform: Platform | None = None) -> Package:
    """Return the core layer: the modules of `noetl_core` that functions need. With `dependencies`, it includes all dependencies,
    built for `platform` (None: for this interpreter); MiniStack runs functions in this interpreter, where they are already
    installed. Like in `sam build`, the layer has bytecode, because an emulator unpacks it for every process. Raises
    `MissingPackages`."""
    with TemporaryDirectory(prefix="noetl-layer-") as folder:
        if dependencies:
            shutil.copytree(_installed(LAYER / REQUIREMENTS, "layer", platform), folder, dirs_exist_ok=True)
        shutil.copytree(CORE, Path(folder, CORE.name), ignore=shutil.ignore_patterns("__pycache__"))
        finish(Path(folder), platform)
        return pack("layer", {f"python/{p.relative_to(folder)}": p for p in Path(folder).rglob("*") if p.is_file()})


def finish(folder: Path, platform: Platform | None = None) -> None:
    """Finish a layer's `python` folder with the interpreter of the functions (layers/noetl_core/layer.py). Raises
    `MissingPackages`."""
    version, python = f"{sys.version_info.major}.{sys.version_info.minor}", sys.executable
    if platform is not None and platform.python != version:
        version, python = platform.python, interpreter(platform.python)
    subprocess.run([python, "-I", str(LAYER / "layer.py"), str(folder), version], check=True)


def interpreter(version: str) -> str:
    """Return the interpreter of a version on this machine. Raises `MissingPackages`."""
    found = subprocess.run([str(LAYER / "find-python.sh"), version, _uv()], capture_output=True, text=True)
    if found.returncode:
        raise MissingPackages(found.stderr.strip())
    return found.stdout.strip()


def tools(distribution: str, platform: Platform | None = None) -> Package:
    """Return a layer of further tool kinds: `distribution` (a folder with a pyproject.toml, a wheel, or a requirement for pip)
    with its dependencies, except the engine and the packages that workers have, for `platform` (None: for this interpreter). Its
    entry points in `noetl.tools` name the kinds. Raises `MissingPackages`, also if it needs other versions than workers have,
    because Lambda would mix the files of both."""
    path = Path(distribution)
    content = b"".join(p.read_bytes() for p in sorted(_tree(path, "").values())) if path.is_dir() else distribution.encode()
    if path.is_file():
        content = path.read_bytes()
    with TemporaryDirectory(prefix="noetl-tools-") as built:
        what = str(path.resolve()) if path.exists() else distribution
        if path.is_dir() and platform is not None:  # for another platform only wheels are installed
            _run([_uv(), "build", "--quiet", "--wheel", "--out-dir", built, what], distribution)
            what = str(next(Path(built).glob("*.whl")))
        pinned = Path(built, "core.txt")
        pinned.write_text("\n".join(_pinned()))
        content += pinned.read_bytes()
        installed = _install(["--constraints", str(pinned), what], content, "tools", platform)
        carried = _carried(installed)
        return pack("tools", {name: path for name, path in _tree(installed, "python/").items() if path not in carried})


def _pinned() -> list[str]:
    """Return the packages of the core layer and of the workers with their versions, as requirements without hashes."""
    lines = [line for file in PINNED for line in file.read_text("utf-8").splitlines()]
    return [line.rstrip(" \\") for line in lines if line and not line.startswith((" ", "#"))]


def _carried(folder: Path) -> set[Path]:
    """Return the files in `folder` that belong to packages that workers have."""
    names = {canonicalize_name(Requirement(line).name) for line in _pinned()}
    found = [d for d in distributions(path=[str(folder)]) if canonicalize_name(d.name) in names]
    return {Path(str(d.locate_file(file))) for d in found for file in d.files or ()}


def packages(files: Sequence[str], platform: Platform | None = None) -> Package:
    """Return a layer of packages for python tasks: those that `files` (playbooks, folders of them, requirements.txt) require, a
    set for each list of requirements, for `platform` (None: for this interpreter). Raises `MissingPackages`, also if a file
    requires nothing; `InvalidPlaybook`."""
    install = LocalPackages(home(), platform)
    sets = {digest(wanted): wanted for file in files for wanted in _required(Path(file))}
    contents: dict[str, Path] = {}
    for mark, wanted in sorted(sets.items()):
        contents |= _tree(Path(install(wanted)), f"python/{FOLDER}/{mark}/")
    return pack("packages", contents)


def _required(file: Path) -> set[tuple[str, ...]]:
    """Return the lists of requirements in a file or a folder. Raises `MissingPackages`."""
    try:
        if file.suffix == ".txt":
            found = {tuple(sorted(requirements_of(file.read_text("utf-8"))))}
        else:
            playbooks = [f for f in sorted(file.rglob("*.y*ml")) if is_playbook(f)] if file.is_dir() else [file]
            found = {parse_playbook(f.read_text("utf-8"), str(f)).executor.requirements for f in playbooks}
    except (OSError, ValueError) as error:
        raise MissingPackages(f"{file}: {error}") from None
    found.discard(())
    if not found:
        raise MissingPackages(
            f"{file} requires no packages: write them in executor.spec.python.requirements, or a requirements.txt"
        )
    return found


def _tree(folder: Path, prefix: str) -> dict[str, Path]:
    return {
        prefix + str(p.relative_to(folder)): p
        for p in folder.rglob("*")
        if p.is_file() and "__pycache__" not in p.parts and p.suffix != ".pyc"
    }


def _installed(requirements: Path, name: str, platform: Platform | None) -> Path:
    """Return the folder with the installed requirements."""
    return _install(["--no-deps", "-r", str(requirements)], requirements.read_bytes(), name, platform)


def _install(what: list[str], content: bytes, name: str, platform: Platform | None) -> Path:
    """Install `what` into `build/<name>-<hash>`, once per content and interpreter or platform, and return the folder: in the
    repository or, without one, in this machine's `.noetl`. Raises `MissingPackages`."""
    whose = sys.version if platform is None else f"{platform.python} {platform.machine}"
    mark = sha256(content + whose.encode()).hexdigest()[:12]
    target = (REPOSITORY if ROOT == REPOSITORY else home()) / "build" / f"{name}-{mark}"
    if not target.exists():
        draft = target.with_name(f"{target.name}.{os.getpid()}")
        shutil.rmtree(draft, ignore_errors=True)
        _uv()
        with NamedTemporaryFile("w", suffix=".txt") as left_out:
            left_out.write(f"{ENGINE}\n")
            left_out.flush()
            how = ["--link-mode", "copy", "--target", str(draft), "--excludes", left_out.name]
            wheels = [] if platform is None else ["--only-binary", ":all:"]
            _run([*installer(platform), *how, *wheels, *what], what[-1])
        try:
            draft.rename(target)
        except OSError:  # another process was first
            shutil.rmtree(draft)
    return target


def _run(command: list[str], what: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise MissingPackages(f"cannot install {what}: {done.stderr.strip()[-WHY_CHARS:]}")


def _uv() -> str:
    """Return the path of uv. Raises `MissingPackages`."""
    beside = Path(sys.executable).parent / "uv"
    found = str(beside) if beside.exists() else shutil.which("uv")
    if found is None:
        raise MissingPackages("uv is needed to build layers: `pip install uv`")
    return found
