"""YAML as people write it in front matter and contracts: texts, lists and mappings, each with the line it stands on.

Every scalar is a text: `3.10` stays `3.10`, `no` stays `no`, a date stays as written. What YAML would do beyond that is
refused or left out: aliases of lists and mappings (a few of them nest into gigabytes), duplicate keys (one of the two
would be lost), empty values.
"""

from __future__ import annotations

from typing import Any

import yaml

__all__ = ["Lines", "YamlFault", "parse"]

#: Line (from 1) of each value, by its path, such as ``facts.0.quote``.
Lines = dict[str, int]


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
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        raise YamlFault(f"not YAML: {error.problem or error.context}", first_line + line) from error
    except yaml.YAMLError as error:
        raise YamlFault(f"not YAML: {error}", first_line) from error
    except RecursionError:
        raise YamlFault("not YAML: nested too deeply", first_line) from None
    lines: Lines = {}
    if node is None:
        return None, lines
    return _value(node, "", first_line, lines, set()), lines


def _value(node: yaml.Node, path: str, first_line: int, lines: Lines, seen: set[int]) -> Any:
    line = first_line + node.start_mark.line
    lines[path] = line
    if isinstance(node, yaml.ScalarNode):
        empty = node.style is None and node.value in {"", "~", "null"}
        return None if empty else node.value
    if id(node) in seen:
        raise YamlFault("an alias of a list or a mapping is not read; write it out", line)
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        return [
            _value(item, _join(path, str(position)), first_line, lines, seen)
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
        value = _value(value_node, _join(path, key), first_line, lines, seen)
        lines[_join(path, key)] = key_line
        mapping[key] = value
    return {key: value for key, value in mapping.items() if value is not None}


def _join(path: str, part: str) -> str:
    return f"{path}.{part}" if path else part
