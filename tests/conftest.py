"""Configuration of all tests."""

import signal

# A background job of a shell starts with SIGINT ignored, and children inherit that; tests send SIGINT to children.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
