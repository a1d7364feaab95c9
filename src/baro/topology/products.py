"""NVIDIA product names, brands and architectures as short, stable words.

Spellings follow what NVIDIA's own components publish (``Nvidia``, ``Ada Lovelace``), so that a selector
written for theirs reads ours. No facts of products here (see ``catalog``) and nothing is inferred from a name
beyond the model itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

BRANDS: Final[Mapping[int, str]] = {
    1: "Quadro",
    2: "Tesla",
    3: "NVS",
    4: "Grid",
    5: "GeForce",
    6: "Titan",
    7: "NvidiaVApps",
    8: "NvidiaVPC",
    9: "NvidiaVCS",
    10: "NvidiaVWS",
    11: "NvidiaCloudGaming",
    12: "QuadroRTX",
    13: "NvidiaRTX",
    14: "Nvidia",
    15: "GeForceRTX",
    16: "TitanRTX",
}
"""``nvmlBrandType_t`` → the word that NVIDIA's driver publishes; 0 is unknown."""

ARCHITECTURES: Final[Mapping[int, str]] = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
"""``nvmlDeviceArchitecture_t`` → name, as ``nvidia-smi`` prints it."""

_VENDOR = re.compile(r"^(?:(?:NVIDIA|Tesla|GRID|GeForce|Quadro)\s+)+", re.IGNORECASE)
_DATA_CENTRE = re.compile(r"^(?:GB|GH|[ABHKLMPRTV])\d{1,4}[A-Z]{0,2}(?=$|[\s-])")
_WORKSTATION = re.compile(
    r"^(?:RTX\s+PRO|RTX|GTX|TITAN)\s+(?:[A-Z]?\d{2,4}(?:\s?(?:Ti|SUPER|Ada|D))?|Xp|V|RTX)\b"
)
_MAX_MODEL = 64
"""Length limit of a string attribute (``resource.k8s.io`` types)."""


def model_name(product_name: str | None) -> str | None:
    """The short model of a product: ``NVIDIA H100 80GB HBM3`` → ``H100``, ``Tesla T4`` → ``T4``.

    Form factor, memory size and cooling are left out on purpose (``H200 NVL`` is an ``H200``): they stay
    readable in the product name. ``None`` for names without a recognisable model.
    """
    if not product_name:
        return None
    bare = _VENDOR.sub("", product_name.strip())
    if found := _DATA_CENTRE.match(bare):
        return found.group()
    if found := _WORKSTATION.match(bare):
        return " ".join(found.group().split())[:_MAX_MODEL]
    return None


def brand_name(text: str | None) -> str | None:
    """The published word for a brand as ``nvidia-smi`` prints it: ``NVIDIA`` → ``Nvidia``."""
    if not text:
        return None
    return _BRAND_WORDS.get(_squeeze(text))


def brand_code(text: str | None) -> int:
    """``nvmlBrandType_t`` of a brand word, 0 (unknown) for others. The inverse of ``BRANDS``."""
    return next((code for code, word in BRANDS.items() if word == brand_name(text)), 0)


def architecture_name(text: str | None) -> str | None:
    """The published word for an architecture: ``ada`` and ``Ada Lovelace`` → ``Ada Lovelace``."""
    if not text:
        return None
    return _ARCHITECTURE_WORDS.get(_squeeze(text))


def architecture_code(text: str | None) -> int | None:
    """``nvmlDeviceArchitecture_t`` of an architecture word, ``None`` for unknown ones."""
    name = architecture_name(text)
    return next((code for code, word in ARCHITECTURES.items() if word == name), None)


def _squeeze(text: str) -> str:
    return re.sub(r"[^a-z]", "", text.lower())


_BRAND_WORDS: Final = {_squeeze(word): word for word in BRANDS.values()}
_ARCHITECTURE_WORDS: Final = {_squeeze(word): word for word in ARCHITECTURES.values()} | {
    "ada": "Ada Lovelace"
}
