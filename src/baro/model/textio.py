"""Bytes of files, pipes and directories, checked before anybody parses them.

Everything that is wrong with a text as a text is found here: missing, unreadable, binary, too large, not
UTF-8, absurdly nested. Formats and objects are the business of the readers above.
"""

from __future__ import annotations

import codecs
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from baro.model.errors import InputError, TooLargeError, Where
from baro.model.jsonio import too_deep

_MIB = 2**20
_HEAD = 64 * 2**10
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What is read at most. Sizes in bytes; a real object has at most 1.5 MiB and some 30 levels."""

    yaml_bytes: int = 64 * _MIB
    json_bytes: int = 1024 * _MIB
    line_bytes: int = 8 * _MIB
    depth: int = 200
    alias_nodes: int = 100_000
    files: int = 20_000
    checked_json_bytes: int = 8 * _MIB
    """JSON texts up to this size are decoded and searched for duplicate keys at once. Larger ones are dumps
    of a server, which never writes a key twice, and their objects are decoded when asked for."""


class Text(msgspec.Struct, frozen=True):
    """A checked text: UTF-8 without byte order mark. ``json`` says that it starts as JSON does."""

    file: str
    data: bytes
    json: bool


def files_below(directory: Path, limits: Limits) -> Iterator[Path]:
    """Manifests in a directory and below, in order of their names; hidden ones are left out."""
    count = 0
    for folder, folders, names in os.walk(directory, onerror=_raise):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.startswith(".") or Path(name).suffix.lower() not in _SUFFIXES:
                continue
            count += 1
            if count > limits.files:
                what = f"more than {limits.files} manifests in this directory"
                raise TooLargeError(what, where=Where(file=str(directory)), next_step="name a smaller one")
            yield Path(folder) / name
    if not count:
        raise InputError(
            "no *.yaml, *.yml or *.json file in this directory",
            where=Where(file=str(directory)),
            next_step="name the directory that holds the manifests",
        )


def read_file(path: Path, limits: Limits) -> Text:
    """The text of a file or pipe. Raises ``InputError``."""
    try:
        with path.open("rb") as stream:
            status = os.fstat(stream.fileno())
            size = status.st_size if stat.S_ISREG(status.st_mode) else None
            return read_stream(stream, str(path), limits, size=size)
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: OSError) -> InputError:
    step = "check the path" if isinstance(error, FileNotFoundError) else "check its permissions"
    reason = (error.strerror or type(error).__name__).lower()
    return InputError(reason, where=Where(file=str(path)), next_step=step)


def read_stream(stream: BinaryIO, file: str, limits: Limits, *, size: int | None = None) -> Text:
    """The text that a stream gives until its end; ``size`` where it is known. Raises ``InputError``."""
    head = stream.read(_HEAD)
    json = _check_head(head, file, limits)
    limit = limits.json_bytes if json else limits.yaml_bytes
    if size is not None and size > limit:
        raise _too_large(file, limit, limits, json=json)
    if size is not None and stream.seekable():
        stream.seek(0)
        data = stream.read(size + 1)
    else:
        chunks, read = [head], len(head)
        while chunk := stream.read(_MIB):
            chunks.append(chunk)
            read += len(chunk)
            if read > limit:
                raise _too_large(file, limit, limits, json=json)
        data = b"".join(chunks)
    return check(data, file, limits)


def check(data: bytes, file: str, limits: Limits) -> Text:
    """``data`` as a checked text. Raises ``InputError``."""
    json = _check_head(data[:_HEAD], file, limits)
    limit = limits.json_bytes if json else limits.yaml_bytes
    if len(data) > limit:
        raise _too_large(file, limit, limits, json=json)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):  # what PowerShell's ``>`` writes
        try:
            data = data.decode("utf-16").encode()
        except UnicodeError:
            raise _binary(file, "not UTF-16 text, although it starts so") from None
    data = data.removeprefix(codecs.BOM_UTF8)
    _check_utf8(data, file)
    if not json:
        _check_lines(data, file, limits)
    return Text(file, data, json)


_BRACKETS = re.compile(rb"[\s\[{]*")


def _check_head(head: bytes, file: str, limits: Limits) -> bool:
    """Refuses what the first bytes give away; True if they look like JSON."""
    if head.startswith(b"\x1f\x8b"):
        raise _binary(file, "compressed with gzip", "decompress it first: gunzip")
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return head[2:].replace(b"\0", b"").lstrip()[:1] in (b"{", b"[")
    if b"\0" in head:
        raise _binary(file, "binary, not text")
    text = head.removeprefix(codecs.BOM_UTF8)
    brackets = _BRACKETS.match(text)
    leading = brackets[0] if brackets else b""
    if leading.count(b"[") + leading.count(b"{") > limits.depth:
        raise too_deep(Where(file=file, line=1), limits.depth)
    return text.lstrip()[:1] in (b"{", b"[")


def _check_utf8(data: bytes, file: str) -> None:
    if data.isascii():
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    view = memoryview(data)
    for start in range(0, len(data), _MIB):  # in chunks: a whole str could cost four times the bytes
        chunk = view[start : start + _MIB]
        try:
            decoder.decode(chunk, final=start + _MIB >= len(data))
        except UnicodeDecodeError as error:
            offset = start + error.start - (len(error.object) - len(chunk))
            where = Where(file=file, line=data.count(b"\n", 0, offset) + 1)
            raise InputError(
                f"byte 0x{data[offset]:02x} is not UTF-8", where=where, next_step="save the file as UTF-8"
            ) from None


def _check_lines(data: bytes, file: str, limits: Limits) -> None:
    start = 0
    while len(data) - start > limits.line_bytes:
        newline = data.rfind(b"\n", start, start + limits.line_bytes)
        if newline < 0:
            where = Where(file=file, line=data.count(b"\n", 0, start) + 1)
            what = f"a line of more than {limits.line_bytes // _MIB} MiB"
            raise TooLargeError(what, where=where, next_step="check that this is a manifest")
        start = newline + 1


def _binary(file: str, what: str, step: str = "name a manifest or a kubectl dump") -> InputError:
    return InputError(what, where=Where(file=file, line=1), next_step=step)


def _too_large(file: str, limit: int, limits: Limits, *, json: bool) -> TooLargeError:
    if json:
        what, step = f"more than {limit // _MIB} MiB of JSON", "dump fewer objects, for instance with -l"
    else:
        what = f"more than {limit // _MIB} MiB of YAML"
        step = f"dump it as JSON, which may have {limits.json_bytes // _MIB} MiB: kubectl get … -o json"
    return TooLargeError(what, where=Where(file=file), next_step=step)


def _raise(error: OSError) -> None:
    raise error


def replace_file(path: Path, old: Text, new: str) -> None:
    """Writes ``new`` in place of ``old``, which was read from ``path``: at once or not at all.

    Encoding, byte order mark, permissions and a symbolic link stay. Raises ``InputError`` when the file is no
    longer what was read, or cannot be written.
    """
    target = path.resolve()
    try:
        raw = target.read_bytes()
        if check(raw, old.file, Limits()).data != old.data:
            step = "run it again: somebody else has written the file"
            raise InputError("changed since it was read", where=Where(file=old.file), next_step=step)
        data = _encoded(new, raw)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            shutil.copymode(target, name)
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise unreadable(path, error) from None


def _encoded(text: str, like: bytes) -> bytes:
    """The text in the encoding of the file that it replaces."""
    if like.startswith(codecs.BOM_UTF16_LE):
        return codecs.BOM_UTF16_LE + text.encode("utf-16-le")
    if like.startswith(codecs.BOM_UTF16_BE):
        return codecs.BOM_UTF16_BE + text.encode("utf-16-be")
    mark = codecs.BOM_UTF8 if like.startswith(codecs.BOM_UTF8) else b""
    return mark + text.encode()
