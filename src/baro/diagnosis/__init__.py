"""Findings about manifests and clusters: checks, lint, explanations. Codes come from findings.yaml."""
