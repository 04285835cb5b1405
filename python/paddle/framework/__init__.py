"""Static Programs, modes, element types, argument checks: what the rest of the Paddle API stands on."""
