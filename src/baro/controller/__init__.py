"""Daemons that change a cluster: the planner; and, clearly apart, simulated stand-ins for upstream."""
