"""Segment and tag Chinese text with LAC 2.1.2, whose models of Paddle 1.x run in predictors of this package.

pip install --no-deps LAC==2.1.2
python examples/segment_text.py 百度是一家高科技公司
"""

from __future__ import annotations

import sys


def main(text: str) -> list[tuple[str, str]]:
    """The words of `text` and their tags."""
    from LAC import LAC

    words, tags = LAC(mode="lac").run(text)
    return list(zip(words, tags, strict=True))


if __name__ == "__main__":
    print(" ".join(f"{word}/{tag}" for word, tag in main(sys.argv[1] if len(sys.argv) > 1 else "百度是一家高科技公司")))
