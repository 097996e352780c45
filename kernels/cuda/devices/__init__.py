"""What runs kernels: a GPU, and two stand-ins in host memory that need none."""
