"""What drives the rules of a stratum: its rounds, its nodes, the schemes of its relations."""
