"""baro makes a Kubernetes cluster GPU-native: the right GPUs for every workload, and only ready ones.

The rooms, lowest first (import-linter holds the order):

``model``       Kubernetes kinds, quantities, versions; reading manifests and dumps
``cel``         the Common Expression Language as DRA uses it
``topology``    the graph of one machine: links, GB/s, islands; parsers and machine profiles
``inventory``   devices of a cluster as columns, pools, what is in use
``allocator``   which devices satisfy a claim on one node; the independent validity checker
``placement``   node and device set chosen together
``diagnosis``   findings about manifests and clusters
``conformance`` agreement with answers recorded from Kubernetes
``kube``        the API client, watches, events
``apiserver``   the embedded Kubernetes API server
``controller``  the planner, and simulated stand-ins for upstream components
``agent``       discovery on a node, and publishing what it found
``demo``        the whole system on one machine, and its story
``cli``         the command line
"""
