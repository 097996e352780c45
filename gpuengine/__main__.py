"""`python -m gpuengine` is the command line."""

from gpuengine.cli import entry

if __name__ == "__main__":
    entry()
