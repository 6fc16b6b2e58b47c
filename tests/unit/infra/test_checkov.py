"""checkov over the template as CloudFormation gets it: what it finds is mended, or explained in .checkov.yaml."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.infra.translated import ROOT, deployed

EXPLAINED = re.compile(r"- (CKV2?_AWS_\d+) # (\S.{20,})")


def found(template: Path) -> set[str]:
    """Ids of the checks that fail."""
    uv = shutil.which("uv") or str(Path(sys.executable).parent / "uv")
    run = [uv, "run", "--quiet", "--frozen", "--project", str(ROOT / "infra" / "checkov"), "checkov"]
    environment = {**os.environ, "UV_PROJECT_ENVIRONMENT": str(ROOT / "build" / "checkov")}
    environment.pop("VIRTUAL_ENV", None)
    done = subprocess.run(
        [*run, "-f", str(template), "--framework", "cloudformation", "--output", "json", "--skip-download"],
        cwd=template.parent,  # away from the list of what is skipped
        env=environment,
        capture_output=True,
        text=True,
        check=False,  # it fails when a check does
    )
    assert done.stdout.startswith("{"), done.stderr
    results = json.loads(done.stdout)["results"]
    assert len(results["passed_checks"]) > 50
    return {check["check_id"] for check in results["failed_checks"]}


@pytest.mark.nightly
def test_every_checkov_finding_is_explained_and_every_explanation_is_needed(tmp_path: Path) -> None:
    template = tmp_path / "template.json"
    resources = deployed(PythonPool="yes")
    template.write_text(json.dumps({"AWSTemplateFormatVersion": "2010-09-09", "Resources": resources}))
    lines = (ROOT / ".checkov.yaml").read_text().splitlines()
    skipped = {m[1] for line in lines if (m := EXPLAINED.fullmatch(line.strip()))}
    assert len(skipped) == sum(line.strip().startswith("- ") for line in lines), "every skipped check says why"
    assert found(template) == skipped
