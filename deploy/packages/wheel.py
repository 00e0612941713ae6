#!/usr/bin/env python3
"""Writes a wheel that carries the binary: `pip install warmpath` is how sglang-router is installed.

Usage: wheel.py BINARY VERSION GLIBC DIR      GLIBC is the oldest that the binary runs with: 2_34

The format: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
Equal binaries give equal wheels: the times in it are SOURCE_DATE_EPOCH.
"""
import base64
import hashlib
import os
import platform
import sys
import time
import zipfile

SUMMARY = "The data plane of SGLang clusters: a router that knows what each worker has in cache"
EXECUTABLE, FILE = 0o100755, 0o100644


def main(binary, version, glibc, folder):
    tag = f"py3-none-manylinux_{glibc}_{platform.machine()}"
    info = f"warmpath-{version}.dist-info"
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "../../LICENSE"), "rb") as f:
        licence = f.read()
    with open(binary, "rb") as f:
        program = f.read()
    metadata = (
        f"Metadata-Version: 2.4\nName: warmpath\nVersion: {version}\nSummary: {SUMMARY}\n"
        "License-Expression: Apache-2.0\nLicense-File: LICENSE\n"
        "Project-URL: Source, https://github.com/warmpath/warmpath\n"
        "Classifier: Operating System :: POSIX :: Linux\n"
    )
    wheel = f"Wheel-Version: 1.0\nGenerator: warmpath\nRoot-Is-Purelib: false\nTag: {tag}\n"
    files = [
        (f"warmpath-{version}.data/scripts/warmpath", program, EXECUTABLE),
        (f"{info}/METADATA", metadata.encode(), FILE),
        (f"{info}/WHEEL", wheel.encode(), FILE),
        (f"{info}/licenses/LICENSE", licence, FILE),
    ]
    record = ""
    for name, data, _ in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files.append((f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode(), FILE))
    when = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    with zipfile.ZipFile(os.path.join(folder, f"warmpath-{version}-{tag}.whl"), "w") as z:
        for name, data, mode in files:
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr, entry.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            z.writestr(entry, data, compresslevel=9)


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
