"""Fleet of 1.x: role makers (`base.role_maker`), workers that talk to each other (`collective`), trainers and servers
(`parameter_server.distribute_transpiler`), `dist_transpiler`."""
