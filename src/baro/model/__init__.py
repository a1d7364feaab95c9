"""What the rest of baro is about: Kubernetes kinds, values and the reading of files.

Here live the kinds we touch as frozen Structs, exact ``Quantity`` and ``SemVer``, the schema of the
served kinds with strict decoding and version conversion, the loader for manifests and dumps, and the
one error tree. No network, no files other than those the caller names, nothing about allocation.
"""
