"""Product names in selectors: how NVML writes them, and what people write.

NVML says ``NVIDIA H100 80GB HBM3``. People compare with ``H100``, with the node label's spelling
(``NVIDIA-H100-80GB-HBM3``), or with a beginning without the vendor: all are false on every device, without
any error. Names that the product table does not have are not judged.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from baro.diagnosis.catalogue import Catalogue
from baro.diagnosis.lint.found import Found
from baro.diagnosis.lint.reads import Comparison, MethodCall, Reads
from baro.model.names import DRIVER, NVIDIA_DRIVER
from baro.topology.catalog import PRODUCTS

_ATTRIBUTES = frozenset(f"{domain}/productName" for domain in (NVIDIA_DRIVER, DRIVER))
_VENDOR = re.compile(r"(?:NVIDIA|Tesla|Quadro|GeForce|TITAN|GRID)\b", re.IGNORECASE)
CODE = "attribute-value-unknown"


def products(text: str, found: Reads, scope: Catalogue) -> Iterator[Found]:
    """Names that no product has, where it is known which product was meant."""
    if scope.measured:
        return  # evaluation on the real devices says more
    for comparison in found.comparisons:
        if comparison.read.full in _ATTRIBUTES and comparison.operator in ("==", "in"):
            yield from _compared(text, comparison)
    for call in found.calls:
        if call.read.full in _ATTRIBUTES:
            yield from _called(text, call)


def _compared(text: str, comparison: Comparison) -> Iterator[Found]:
    start, end = comparison.literal
    written = text[comparison.read.start : comparison.read.end]
    for value in comparison.values:
        if not isinstance(value, str) or value in _names():
            continue
        product = _spelt(value)
        if product is not None:
            message = f"no product is called {value!r}: NVML says {product!r}"
            yield Found(CODE, message, start, end, text[start:end].replace(value, product))
        elif (example := _part_of(value)) is not None:
            message = f"no product is called {value!r}: names are whole, such as {example!r}"
            if comparison.operator == "==":
                new = f"{written}.contains({text[start:end]})"
                yield Found(CODE, message, comparison.start, comparison.end, new)
            else:
                yield Found(CODE, message, start, end)


def _called(text: str, call: MethodCall) -> Iterator[Found]:
    test = {"startsWith": str.startswith, "endsWith": str.endswith, "contains": str.__contains__}[call.method]
    if not call.value or any(test(name, call.value) for name in _names()):
        return
    start, end = call.literal
    plain = _blank(call.value)
    meant = [name for name in _names() if test(_blank(name), plain)]
    if meant:
        said = next((part for name in meant if (part := _slice(name, plain)) is not None), None)
        message = f"no product name has {call.value!r} there: NVML says {meant[0]!r}"
        yield Found(CODE, message, start, end, text[start:end].replace(call.value, said) if said else None)
    elif call.method == "startsWith" and (example := _part_of(call.value)) is not None:
        message = f"no product name begins with {call.value!r}: names are such as {example!r}"
        yield Found(CODE, message, *call.method_span, ".contains")


def _slice(name: str, plain: str) -> str | None:
    at = _blank(name).find(plain)
    return name[at : at + len(plain)] if at >= 0 else None


def _blank(name: str) -> str:
    return re.sub(r"[-_ ]", " ", name).casefold()


@functools.cache
def _names() -> frozenset[str]:
    return frozenset(product.name for product in PRODUCTS)


def _spelt(value: str) -> str | None:
    """The product that is meant by another spelling: the node label's dashes, another case."""
    found = [name for name in sorted(_names()) if _blank(name) == _blank(value)]
    return found[0] if len(found) == 1 else None


def _part_of(value: str) -> str | None:
    """A product with the value as whole words after the vendor's name; None when it may be a name itself."""
    if _VENDOR.match(value) or not value.strip():
        return None
    word = re.compile(rf"(?<![\w]){re.escape(value)}(?![\w])", re.IGNORECASE)
    return next((name for name in sorted(_names()) if _VENDOR.match(name) and word.search(name)), None)
