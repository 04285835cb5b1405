"""Packages of the public index that serve Paddle models, unmodified: rapidocr_paddle 1.4.5 and LAC 2.1.2.

They are not dependencies: `pip install --target FOLDER --no-deps rapidocr-paddle==1.4.5 LAC==2.1.2`, with
opencv-python-headless, pyclipper, shapely, PyYAML, and `OAR_CLIENTS=FOLDER`. The expected texts are
those of Paddle 2.6.2 and 1.8.5.
"""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture
def clients(monkeypatch):
    folder = os.environ.get("OAR_CLIENTS")
    if not folder:
        pytest.skip("OAR_CLIENTS names no folder with the packages")
    monkeypatch.setattr(sys, "path", [folder, *sys.path])


def test_rapidocr_reads_a_picture(clients):
    cv2 = pytest.importorskip("cv2")
    rapidocr = pytest.importorskip("rapidocr_paddle")
    picture = np.full((120, 480, 3), 255, "uint8")
    cv2.putText(picture, "Hello Oar 2026", (20, 70), cv2.FONT_HERSHEY_SIMPLEX, 1.5, (0, 0, 0), 3)
    found, _ = rapidocr.RapidOCR()(picture)
    assert "".join(text for _, text, _ in found) == "Hello Oar 2026"
    assert all(float(score) > 0.9 for _, _, score in found)


@pytest.mark.parametrize(
    "mode, want",
    [
        ("seg", ["LAC", "是", "个", "优秀", "的", "分词", "工具"]),
        ("lac", [["LAC", "是", "个", "优秀", "的", "分词", "工具"], ["nz", "v", "q", "a", "u", "n", "n"]]),
    ],
)
def test_lac_segments_and_tags(clients, mode, want):
    lac = pytest.importorskip("LAC")
    assert lac.LAC(mode=mode).run("LAC是个优秀的分词工具") == want
