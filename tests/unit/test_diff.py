"""The words that a version changed."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rag_sql._diff import folded, text_diff

words = st.lists(st.sampled_from(["a", "b", "c", "the", "rule", "\n", "\n\n", "\t"]), max_size=30).map(" ".join)


def shown(old: str, new: str) -> str:
    return " ".join(f"{mark.strip()}{word}" for mark, word in folded(text_diff(old, new)))


def test_the_words_that_differ_are_marked_and_no_others() -> None:
    old = "Items can be returned within 30 days of delivery.\nThe customer pays."
    new = "Items can be returned within 14 days of delivery.\nThe customer pays nothing."
    assert shown(old, new) == (
        "Items can be returned within -30 +14 days of delivery. The customer -pays. +pays +nothing."
    )


@given(words, words)
def test_both_texts_can_be_read_from_the_runs(old: str, new: str) -> None:
    runs = text_diff(old, new)
    assert [word for run in runs if run.mark in " -" for word in run.words] == old.split()
    assert [word for run in runs if run.mark in " +" for word in run.words] == new.split()
    assert all(run.words and run.mark != after.mark for run, after in pairwise(runs))


def test_a_paragraph_that_is_broken_otherwise_has_the_same_words() -> None:
    (run,) = text_diff("one two\nthree four", "one\ntwo three\n\nfour")
    assert run.mark == " "


def test_a_long_unchanged_stretch_is_folded_to_what_is_near_a_change() -> None:
    same = [f"w{number}" for number in range(100)]
    found = shown(" ".join([*same, "old", *same]), " ".join([*same, "new", *same]))
    assert found == " ".join(["[… 88 words …]", *same[-12:], "-old", "+new", *same[:12], "[… 88 words …]"])


def test_texts_that_differ_in_too_many_words_are_replaced_as_a_whole() -> None:
    old, new = ([f"{name}{number % 7}" for number in range(6000)] for name in "ab")
    assert [(run.mark, len(run.words)) for run in text_diff(" ".join(old), " ".join(new))] == [("-", 6000), ("+", 6000)]
