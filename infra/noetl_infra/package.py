"""Code as zip files named by their content, so that deploying the same code twice uploads nothing."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "layers" / "noetl_core"
EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time stamp of every packed file: the same code gives the same bytes."""


@dataclass(frozen=True, slots=True)
class Package:
    """A zip file and the key it is uploaded under."""

    key: str
    body: bytes


def pack(name: str, files: dict[str, Path]) -> Package:
    """Zip `files` (archive name -> file)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for arc, path in sorted(files.items()):
            info = zipfile.ZipInfo(arc, EPOCH)
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())
    body = buffer.getvalue()
    return Package(f"{name}-{sha256(body).hexdigest()[:16]}.zip", body)


def function(folder: str) -> Package:
    """A function's folder, e.g. `functions/admit/`."""
    return pack(Path(folder).name, _tree(ROOT / folder, ""))


def layer(*, dependencies: bool) -> Package:
    """The core layer. `dependencies`: with everything it needs, built for the interpreter that runs this; MiniStack runs
    functions in that same interpreter, where they are already installed, so there the layer is the core alone."""
    files = _tree(CORE / "noetl_core", "python/noetl_core/")
    if dependencies:
        files = {**_tree(_installed(), "python/"), **files}
    return pack("layer", files)


def _tree(folder: Path, prefix: str) -> dict[str, Path]:
    return {
        prefix + str(p.relative_to(folder)): p
        for p in folder.rglob("*")
        if p.is_file() and "__pycache__" not in p.parts and p.suffix != ".pyc"
    }


def _installed() -> Path:
    """The requirements installed into `build/layer-<hash>`, once per requirements file and interpreter."""
    requirements = CORE / "requirements.txt"
    mark = sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    target = ROOT / "build" / f"layer-{mark}"
    if not target.exists():
        draft = target.with_suffix(".new")
        shutil.rmtree(draft, ignore_errors=True)
        uv = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
        command = [uv, "pip", "install", "-q", "--python", sys.executable, "--target", str(draft), "-r", str(requirements)]
        subprocess.run(command, check=True)
        draft.rename(target)
    return target
