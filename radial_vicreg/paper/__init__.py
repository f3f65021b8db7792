"""What belongs to the paper alone: its values, tables and figures, and its synthetic experiments."""
