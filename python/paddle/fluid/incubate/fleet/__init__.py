"""Fleet of 1.x: role makers (`base.role_maker`), workers that talk to each other (`collective`), `dist_transpiler`."""
