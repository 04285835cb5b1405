"""Static Programs: Variable, Block, Operator, Program, the guards that switch them, gradients appended to them."""
