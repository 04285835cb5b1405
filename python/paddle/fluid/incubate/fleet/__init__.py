"""Fleet of 1.x, so far its role makers (`base.role_maker`)."""
