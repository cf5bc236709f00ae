import pytest

from rollshape.geometry.dialects.comments import review_comments
from rollshape.geometry.dialects.sources.yamlfile import Edit, edit, parse

TEXT = """\
horizon_length: 16  # don't change
minibatch_size: 8000  # a quarter of 2048 × 16
name: "8000 # not a comment"
url: file#8000
# tuned with 8,000 samples
mini_epochs: 4  # four
"""


def patched(text: str, *edits: Edit) -> tuple[str, tuple[str, ...]]:
    file = parse(text)
    return review_comments(text, edit(file, edits), file.values, edits)


def test_comments_that_an_edit_makes_untrue_are_quoted() -> None:
    text, warnings = patched(TEXT, Edit(("minibatch_size",), 8192))
    assert text == TEXT.replace("size: 8000", "size: 8192")
    assert warnings == (
        "line 2: the comment may be untrue now: # a quarter of 2048 × 16",
        "line 5: the comment may be untrue now: # tuned with 8,000 samples",
    )


def test_a_comment_that_repeats_the_number_is_corrected() -> None:
    text, warnings = patched("a: 1\nsize: 8_000 # 8000\r\nb: 2", Edit(("size",), 8192))
    assert text == "a: 1\nsize: 8192 # 8192\r\nb: 2"
    assert warnings == ()


@pytest.mark.parametrize("text", ["a: 5  # five\nb: 2  # 3 of them\n", "a: 5\nb: 2  # 50\n"])
def test_other_comments_are_left_alone(text: str) -> None:
    assert patched(text, Edit(("a",), 6))[1] == ()


def test_without_an_edit_nothing_is_said() -> None:
    assert review_comments(TEXT, TEXT, {}, ()) == (TEXT, ())
