"""``gpuengine doctor``: print what `gpuengine.doctor` finds, or what `cli.device` finds of a GPU."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from gpuengine.doctor import Finding, examine, works

_MARKS = {"ok": "ok", "missing": "--", "failed": "!!"}
_COLOURS = {"ok": "\x1b[32m", "missing": "\x1b[33m", "failed": "\x1b[31m"}


def doctor(arguments: argparse.Namespace) -> int:
    """Print each finding as it is made; 1 if the engine can't work here, or the GPU that is asked about."""
    if arguments.tune or arguments.device is not None:
        # Not before: it needs libraries that may be what is missing.
        from gpuengine.cli import device

        return device.tune_device(arguments) if arguments.tune else device.check_device(arguments)
    if arguments.warm:
        return _warm()
    findings: list[Finding] = []
    for finding in examine():
        if not arguments.json:
            _print(finding, first=not findings or findings[-1].group != finding.group)
        findings.append(finding)
    healthy = works(findings)
    if arguments.json:
        print(json.dumps({"works": healthy, "findings": [asdict(f) for f in findings]}, ensure_ascii=False))
    else:
        print(
            "\nThe engine works here." if healthy else "\nThe engine can't work here: see the lines marked !!"
        )
    return 0 if healthy else 1


def _warm() -> int:
    """Compile what is not in the cache yet, and say so kernel by kernel."""
    from gpuengine.kernels.cpu import all_kernels
    from gpuengine.kernels.cpu.jit import compile_seconds

    kernels = all_kernels()
    for number, one in enumerate(kernels, 1):
        before = len(compile_seconds)
        one.load()
        if len(compile_seconds) > before:
            print(f"{number}/{len(kernels)}  {one.name}", flush=True)
    print(f"{len(kernels)} kernels are ready, {len(compile_seconds)} of them compiled now")
    return 0


def _print(finding: Finding, *, first: bool) -> None:
    if first:
        print(f"\n{finding.group}")
    colour = sys.stdout.isatty()
    mark = _MARKS[finding.status]
    shown = f"{_COLOURS[finding.status]}{mark}\x1b[0m" if colour else mark
    print(f"  {shown}  {finding.name:14} {finding.value}", flush=True)
    if finding.advice and finding.status != "ok":
        print(f"      {'':14} {finding.advice}")
