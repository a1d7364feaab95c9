"""The graph of one machine: GPUs, NICs, links in GB/s with a confidence, islands, rings.

Parsers for captured outputs and sysfs, machine profiles (data), renderers. Never guesses: what is not
known stays ``None``. No NVML calls and no NumPy (the node agent imports this room).
"""
