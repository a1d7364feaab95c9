"""From a character of an expression to line and column in the file, and from a document to its spans.

Goes through quotes, escapes, folds and block indentation (``baro.model.spans``). Texts are read again when
the first place in them is asked for, and kept.
"""

from __future__ import annotations

from baro.diagnosis.lint.manifest import Manifest
from baro.model.edits import Steps
from baro.model.errors import Where
from baro.model.load import Source
from baro.model.spans import Span, json_spans, spans
from baro.model.textio import Text


class Places:
    """The spans of the texts of one run."""

    def __init__(self) -> None:
        self._texts: dict[int, tuple[Text, str]] = {}
        self._roots: dict[int, tuple[Span | None, ...]] = {}

    def text_of(self, source: Source) -> str:
        return self._read(source.text)[1]

    def root(self, source: Source) -> Span | None:
        """The span of the object; offsets count in ``text_of(source)``."""
        text, plain = self._read(source.text)
        if source.offset is not None:
            start = source.offset if text.data.isascii() else len(text.data[: source.offset].decode())
            return json_spans(plain, start)
        if id(text) not in self._roots:
            self._roots[id(text)] = spans(plain)
        roots = self._roots[id(text)]
        root = roots[source.document] if source.document < len(roots) else None
        return root.at(source.steps) if root is not None else None

    def _read(self, text: Text) -> tuple[Text, str]:
        found = self._texts.get(id(text))
        if found is None:
            found = self._texts[id(text)] = text, text.data.decode("utf-8", "replace")
        return found

    def span(self, manifest: Manifest, steps: Steps) -> Span | None:
        """The span of a field as it is written."""
        source = manifest.document.source
        root = self.root(source) if source is not None else None
        return root.at(steps) if root is not None else None

    def raw(self, manifest: Manifest, steps: Steps) -> str | None:
        """A scalar as it is written; None where there is none, or it is not in a text."""
        source = manifest.document.source
        span = self.span(manifest, steps)
        if source is None or span is None or not span.is_scalar:
            return None
        return self.text_of(source)[span.start : span.end]

    def where(self, manifest: Manifest, path: str, at: int | None) -> Where:
        """Line and column of character ``at`` of the text at ``path``; of the field where that is unknown."""
        where = manifest.where(path)
        source = manifest.document.source
        if at is None or source is None or where.line is None:
            return where
        span = self.span(manifest, manifest.steps(path))
        text = self.text_of(source)
        characters = span.characters(text) if span is not None else None
        if characters is None or at >= len(characters):
            return where
        line, column = line_and_column(text, characters[at])
        return Where(file=where.file, line=line, column=column, object=where.object, path=where.path)


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Both from 1; columns count characters."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
