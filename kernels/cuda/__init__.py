"""The CUDA backend. `backend` is where to start; docs/architecture.md has a map of the rest."""
