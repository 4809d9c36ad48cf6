"""YAML as people write it in front matter and contracts: texts, lists and mappings, each with the line it stands on.

Every scalar is a text: `3.10` stays `3.10`, `no` stays `no`, a date stays as written. What YAML would do beyond that is
refused or left out: aliases of lists and mappings (a few of them nest into gigabytes), duplicate keys (one of the two
would be lost). A key without a value has the value None.
"""

from __future__ import annotations

from typing import Any

import yaml

__all__ = ["Lines", "YamlFault", "parse", "unfit"]

#: Line (from 1) of each value, by its path, such as ``facts.0.quote``.
Lines = dict[str, int]


_MOST_LEVELS = 50

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
    lines: Lines = {}
    try:
        node = _compose(text, first_line, _FAST_LOADER)
    except yaml.YAMLError:
        # Read again by the loader that says best what is wrong, and where.
        node = _diagnose(text, first_line)
    return (None if node is None else _value(node, "", first_line + node.start_mark.line, first_line, lines)), lines


def _compose(text: str, first_line: int, loader: Any) -> yaml.Node | None:
    _check_events(text, first_line, loader)
    return yaml.compose(text, Loader=loader)


def _diagnose(text: str, first_line: int) -> yaml.Node | None:
    try:
        return _compose(text, first_line, yaml.SafeLoader)
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


def _check_events(text: str, first_line: int, loader: Any) -> None:
    """Refuse what the composer would expand or recurse into, where it stands."""
    depth = 0
    anchors: set[str] = set()
    for event in yaml.parse(text, Loader=loader):
        line = first_line + (event.start_mark.line if event.start_mark else 0)
        if isinstance(event, yaml.AliasEvent) and event.anchor in anchors:
            raise YamlFault("an alias of a list or a mapping is not read; write it out", line)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if event.anchor is not None:
                anchors.add(event.anchor)
            if depth > _MOST_LEVELS:
                raise YamlFault(f"nested too deeply: more than {_MOST_LEVELS} levels", line)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _value(node: yaml.Node, path: str, line: int, first_line: int, lines: Lines) -> Any:
    # The line is the caller's to say: an alias stands elsewhere than the node it repeats.
    lines[path] = line
    if isinstance(node, yaml.ScalarNode):
        if problem := unfit(node.value):
            raise YamlFault(problem, line)
        empty = not node.style and node.value in {"", "~", "null"}  # plain: None, or "" from libyaml
        return None if empty else node.value
    if isinstance(node, yaml.SequenceNode):
        return [
            _value(item, _join(path, str(position)), first_line + item.start_mark.line, first_line, lines)
            for position, item in enumerate(node.value)
        ]
    assert isinstance(node, yaml.MappingNode)
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key_line = first_line + key_node.start_mark.line
        if not isinstance(key_node, yaml.ScalarNode):
            raise YamlFault("a key must be a plain text", key_line)
        key = key_node.value
        if key in mapping:
            raise YamlFault(f"the key {key!r} stands more than once", key_line)
        mapping[key] = _value(value_node, _join(path, key), key_line, first_line, lines)
    return mapping


def _join(path: str, part: str) -> str:
    return f"{path}.{part}" if path else part
