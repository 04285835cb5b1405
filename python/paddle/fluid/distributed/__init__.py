"""Downpour as 1.x had it first; 2.0.2's own files are Python 2's. See `fluid.incubate.fleet.parameter_server.pslib`."""
