"""The way to a live API server: client, watch state machine, work queue, events, leases."""
