"""The first version of Downpour in 1.x; see `fluid.incubate.fleet.parameter_server.pslib` for the later one."""
