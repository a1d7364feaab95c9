"""Rules of custom kinds in CEL: ``x-kubernetes-validations`` of a structural schema.

``declared`` turns a schema into types, ``expressions`` compiles against them, ``evaluation`` runs the rules
of a schema on an object and its old version, ``definition`` says whether a definition's rules may be. Knows
schemas and values, and neither stores nor HTTP. ``tests/apiserver`` compares it with a real server.
"""

from baro.apiserver.rules.correlation import Correlated
from baro.apiserver.rules.definition import check_rules
from baro.apiserver.rules.evaluation import Findings, RuleTree, rule_tree, run_rules
from baro.apiserver.rules.paths import FieldPathError, found

__all__ = [
    "Correlated",
    "FieldPathError",
    "Findings",
    "RuleTree",
    "check_rules",
    "found",
    "rule_tree",
    "run_rules",
]
