"""One way to measure for all tables: cells in processes of their own, sheets of what they gave, a command."""
