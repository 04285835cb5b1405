"""``python -m paddle.legacy``: runs a program of Paddle 1.x."""

from .command import main

if __name__ == "__main__":
    main()
