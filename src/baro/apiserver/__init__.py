"""The embedded Kubernetes API server: a convenience that real kubectl can use, not the truth.

Separate rooms for storage, validation, patching and serving.
"""
