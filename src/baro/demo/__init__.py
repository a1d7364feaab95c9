"""The whole system on one machine: embedded server, simulated nodes, planner, and the story they tell.

Puts parts of other rooms together and prints what they did. Decides nothing itself.
"""
