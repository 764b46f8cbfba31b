"""Code of devices: sources compiled, kernels found, modules made of them."""
