"""A diagnosis as people and programs read it: text, a JSON document, one self-contained page."""
