"""The command line: one lazy module per command, output formats, exit codes. No logic of its own."""
