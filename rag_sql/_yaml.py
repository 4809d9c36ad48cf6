"""YAML as people write it in front matter and contracts: texts, lists and mappings, each with the line it stands on.

Every scalar is a text: `3.10` stays `3.10`, `no` stays `no`, a date stays as written. What YAML would do beyond that is
refused or left out: aliases of lists and mappings (a few of them nest into gigabytes), duplicate keys (one of the two
would be lost). A key without a value has the value None.
"""

from __future__ import annotations

from typing import Any

import yaml
from yaml.events import AliasEvent, MappingEndEvent, ScalarEvent, SequenceEndEvent, SequenceStartEvent, StreamEndEvent

__all__ = ["Lines", "YamlFault", "parse", "unfit"]

#: Line (from 1) of each value, by its path, such as ``facts.0.quote``.
Lines = dict[str, int]


_MOST_LEVELS = 50
_TEXTS = (ScalarEvent, AliasEvent)
_EMPTY = {"", "~", "null"}

#: libyaml, where PyYAML was built with it: ten times as fast.
_FAST_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlFault(Exception):
    """What is wrong, and on which line (from 1)."""

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


def parse(text: str, first_line: int = 1) -> tuple[Any, Lines]:
    """Parse one YAML document.

    Parameters
    ----------
    text : str
    first_line : int
        Line of the file on which `text` begins.

    Returns
    -------
    value, lines
        None for an empty document.

    Raises
    ------
    YamlFault
    """
    try:
        return _Reader(text, first_line, _FAST_LOADER).read()
    except yaml.YAMLError:
        pass
    # Read again by the loader that says best what is wrong, and where.
    try:
        return _Reader(text, first_line, yaml.SafeLoader).read()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position)
        raise YamlFault(f"not YAML: the character U+{error.character:04X}", first_line + line) from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        said = ", ".join(part for part in (error.context, error.problem) if part)
        raise YamlFault(f"not YAML: {said}", first_line + line) from error


def unfit(text: str) -> str:
    """What makes a text unfit to be stored; empty when nothing does."""
    if "\0" in text:
        return "contains a NUL character"
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        return "contains half of a surrogate pair"
    return ""


class _Reader:
    """Makes the value from the loader's events, in one pass: its nodes would cost as much again."""

    def __init__(self, text: str, first_line: int, loader: Any) -> None:
        self._next = loader(text).get_event
        self._first_line = first_line
        self._is_fit = "\\" not in text and not unfit(text)  # only an escape makes what the text does not have
        self._anchors: dict[str, Any] = {}  # events of texts by name; None for a list or a mapping
        self._lines: Lines = {}

    def read(self) -> tuple[Any, Lines]:
        """The one document of the text."""
        self._next()  # the stream begins
        if isinstance(self._next(), StreamEndEvent):
            return None, self._lines
        event = self._next()
        value = self._value(event, "", self._line(event), 1)
        self._next()  # the document ends
        event = self._next()
        if not isinstance(event, StreamEndEvent):
            raise YamlFault("not YAML: another document begins", self._line(event))
        return value, self._lines

    def _line(self, event: Any) -> int:
        line: int = self._first_line + event.start_mark.line
        return line

    def _value(self, event: Any, path: str, line: int, depth: int) -> Any:
        self._lines[path] = line
        if isinstance(event, _TEXTS):
            text = self._text(event, line)
            value = text.value
            # Plain: None, or "" from libyaml.
            return None if value in _EMPTY and not text.style else value
        if depth > _MOST_LEVELS:
            raise YamlFault(f"nested too deeply: more than {_MOST_LEVELS} levels", self._line(event))
        if event.anchor is not None:
            self._define(event, None)
        if isinstance(event, SequenceStartEvent):
            return self._list(path, depth)
        return self._mapping(path, depth)

    def _text(self, event: Any, line: int) -> Any:
        """The event of a text, or of the text that an alias names."""
        if isinstance(event, AliasEvent):
            if event.anchor not in self._anchors:
                raise YamlFault(f"not YAML: the alias *{event.anchor} names nothing", self._line(event))
            # What it would expand or recurse into is refused where it stands.
            if self._anchors[event.anchor] is None:
                raise YamlFault("an alias of a list or a mapping is not read; write it out", self._line(event))
            return self._anchors[event.anchor]
        if not self._is_fit and (problem := unfit(event.value)):
            raise YamlFault(problem, line)
        if event.anchor is not None:
            self._define(event, event)
        return event

    def _define(self, event: Any, text: Any) -> None:
        if event.anchor in self._anchors:
            raise YamlFault(f"not YAML: the anchor &{event.anchor} stands more than once", self._line(event))
        self._anchors[event.anchor] = text

    def _list(self, path: str, depth: int) -> list[Any]:
        found: list[Any] = []
        prefix = f"{path}." if path else ""
        while not isinstance(event := self._next(), SequenceEndEvent):
            line = self._first_line + event.start_mark.line
            found.append(self._value(event, f"{prefix}{len(found)}", line, depth + 1))
        return found

    def _mapping(self, path: str, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        prefix = f"{path}." if path else ""
        while not isinstance(event := self._next(), MappingEndEvent):
            line = self._first_line + event.start_mark.line
            if not isinstance(event, _TEXTS):
                raise YamlFault("a key must be a plain text", line)
            key = self._text(event, line).value
            if key in found:
                raise YamlFault(f"the key {key!r} stands more than once", line)
            found[key] = self._value(self._next(), prefix + key, line, depth + 1)
        return found
