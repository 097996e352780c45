"""`python -m gpuengine` is the command line."""

from gpuengine.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
