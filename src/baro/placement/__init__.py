"""Node and device set chosen together: the objective over nodes, and why the others lost."""
