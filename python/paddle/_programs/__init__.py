"""Static Programs: Variable, Block, Operator, Program, the guards that switch Programs, and backward."""
