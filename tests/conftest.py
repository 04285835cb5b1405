"""What holds for all tests."""
import signal

# A job in the background of a shell starts with SIGINT ignored, and its children would, too; tests send it to them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
