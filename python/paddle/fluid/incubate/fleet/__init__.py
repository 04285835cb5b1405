"""Fleet of 1.x: role makers (`base.role_maker`), collective training (`collective`), parameter servers
(`parameter_server.distribute_transpiler`), `dist_transpiler`."""
