"""What runs on a node: discovery over NVML and sysfs (real or simulated) and the publisher.

Imports neither NumPy nor the command line nor the web.
"""
