"""Rules with cyclic bodies: join plans and hypertree decompositions side by side."""
