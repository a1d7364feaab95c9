"""How much slower a tensor-parallel step becomes on a slower set of GPUs: a stated model, not a measurement.

One dense transformer layer in prefill, hidden size h, 16-bit activations, n GPUs, T tokens:

- arithmetic: 24·T·h² operations over n GPUs at F operations a second each;
- two all-reduces of 2·T·h bytes, each moving 2·(n-1)/n of them at B bytes a second (ring, bus bandwidth).

T cancels: communication / arithmetic = (n-1)·F / (3·h·B). Nothing overlaps. h is 8192, F half of the
product's dense 16-bit peak. Decoding steps are bound by latency and suffer less; larger h suffers less.
"""

from __future__ import annotations

from typing import Final

HIDDEN: Final = 8192
EFFICIENCY: Final = 0.5
DEFAULT_TFLOPS: Final = 125.0
_PEAK_TFLOPS: Final = (
    ("GB300", 2500.0), ("GB200", 2500.0), ("B300", 2250.0), ("B200", 2250.0), ("H200 NVL", 835.0),
    ("H200", 989.0), ("H100 NVL", 835.0), ("H100 PCIe", 756.0), ("H100", 989.0), ("H800", 989.0),
    ("H20", 148.0), ("A100", 312.0), ("A800", 312.0),
    ("L40S", 362.0), ("L40", 181.0), ("A40", 150.0), ("V100", 125.0),
)  # fmt: skip
"""Dense 16-bit peak by product, in TFLOP/s, from the data sheets; the first name that occurs counts."""
BASIS: Final = (
    f"model: prefill of a dense layer, hidden size {HIDDEN}, 16 bit, half of peak FLOP/s, "
    "ring all-reduce, no overlap"
)


def peak_tflops(product: str | None) -> float:
    """Dense 16-bit peak of a product; an old card's where the product is not known."""
    return next((peak for name, peak in _PEAK_TFLOPS if product and name in product), DEFAULT_TFLOPS)


def slowdown(gpus: int, now_gbps: float, best_gbps: float, product: str | None) -> float:
    """Time of a step on the set as it is over that on the best set; at least 1. GB/s are of one direction."""
    flops = peak_tflops(product) * EFFICIENCY * 1e12

    def step(gbps: float) -> float:
        return 1 + (gpus - 1) * flops / (3 * HIDDEN * gbps * 1e9)

    return max(1.0, step(now_gbps) / step(best_gbps))
