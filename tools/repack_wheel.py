"""Packs a wheel again with zopfli's search for the shortest deflate stream: the same files and format, 3 % smaller.

python tools/repack_wheel.py dist/NAME.whl        (`pip install zopflipy`; a minute)
"""

import os
import sys
import zipfile
from unittest import mock

from zopfli import ZOPFLI_FORMAT_DEFLATE, ZopfliCompressor


def compressor(*_args) -> ZopfliCompressor:
    return ZopfliCompressor(ZOPFLI_FORMAT_DEFLATE, iterations=5, block_splitting_max=0)


def repack(path: str) -> None:
    aside = path + ".part"
    # zipfile takes a compressor from here, and has no public place to say which.
    with zipfile.ZipFile(path) as old, mock.patch("zipfile._get_compressor", compressor):
        with zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as new:
            for entry in old.infolist():
                new.writestr(entry, old.read(entry))
    with zipfile.ZipFile(aside) as new:
        broken = new.testzip()
    if broken:
        raise SystemExit(f"{path}: {broken} was not packed right")
    before, after = os.path.getsize(path), os.path.getsize(aside)
    os.replace(aside, path)
    print(f"{path}: {before:,} bytes, now {after:,}")


if __name__ == "__main__":
    for wheel in sys.argv[1:]:
        repack(wheel)
