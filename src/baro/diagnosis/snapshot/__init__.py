"""A dump of what a diagnosis looks at: pruned, optionally anonymised, readable with ``--from``.

Pruned always: managedFields, kubectl's last-applied annotation, environment, commands and arguments of
containers, and every volume that is not a kubelet directory of the host. Secrets and ConfigMaps are never
read. Nothing here writes files.
"""

from baro.diagnosis.snapshot.anonymise import anonymised, pseudonyms_of
from baro.diagnosis.snapshot.prune import pruned
from baro.diagnosis.snapshot.pseudonyms import Pseudonyms
from baro.diagnosis.snapshot.write import objects

__all__ = ["Pseudonyms", "anonymised", "objects", "pruned", "pseudonyms_of"]
