"""`python -m paddle.distributed.launch`."""

from paddle.distributed.launch import launch

if __name__ == "__main__":
    launch()
