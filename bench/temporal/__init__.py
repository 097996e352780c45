"""DatalogMTL: figure 1 of the paper as tables, on generated facts."""
