"""`sam validate --lint` takes the template. It is cfn-lint (`make template`) behind a command line that takes twice as long to start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.infra.translated import ROOT


@pytest.mark.nightly
def test_sam_validates_the_template() -> None:
    sam = Path(sys.executable).parent / "sam"
    env = {**os.environ, "SAM_CLI_TELEMETRY": "0", "AWS_DEFAULT_REGION": "us-east-1"}
    done = subprocess.run([sam, "validate", "--lint"], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is a valid SAM Template" in done.stdout
