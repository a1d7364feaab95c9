"""``python -m bench [NAME…]``: run the benchmarks and print one table each.

Every benchmark is a module of this folder with ``main() -> None``. A benchmark compares in one run and
prints ratios; none of them asserts.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys

import bench


def names() -> list[str]:
    """All benchmarks, by name."""
    return sorted(
        module.name for module in pkgutil.iter_modules(bench.__path__) if not module.name.startswith("_")
    )


def main(wanted: list[str]) -> int:
    unknown = [name for name in wanted if name not in names()]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(names())}", file=sys.stderr)
        return 2
    for name in wanted or names():
        print(f"\n## {name}\n")
        importlib.import_module(f"bench.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
