"""Decoding of bodies: to Structs (``to_kind``) and strictly, in the API server's words (``strict_errors``).

Bodies are JSON objects that somebody else read (``baro.model.load``, a server, a client). What a decoded
object *means*, and whether its values are allowed, is not decided here.
"""

from baro.model.decode.jsontext import BodyError, Pairs, decode_body, named_kind
from baro.model.decode.kinds import to_kind
from baro.model.decode.strict import StrictError, rejection, strict_errors

__all__ = [
    "BodyError",
    "Pairs",
    "StrictError",
    "decode_body",
    "named_kind",
    "rejection",
    "strict_errors",
    "to_kind",
]
