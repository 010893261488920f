"""The notebooks as one run: runner, kernels, report, and the commands around them."""
